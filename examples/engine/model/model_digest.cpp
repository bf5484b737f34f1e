#include "engine/model/model_digest.hpp"

#include <algorithm>
#include <array>

namespace kvpage::engine {
namespace {

constexpr std::size_t kSampleBytes = 1024;

/// Length and content, so that neighbouring fields cannot run into each other.
void add(Sha256& hash, std::span<const std::byte> field) {
  hash.u32(static_cast<std::uint32_t>(field.size())).bytes(field);
}
void add(Sha256& hash, std::string_view text) { add(hash, std::as_bytes(std::span(text))); }

}  // namespace

Expected<Sha256Digest, LoadError> model_digest(const Gguf& file) {
  Sha256 hash;
  for (const GgufEntry& entry : file.metadata()) {
    if (entry.value.type == GgufType::kArray && entry.key.starts_with("tokenizer.")) continue;  // long, and no layer reads it
    add(hash, entry.key);
    hash.u32(static_cast<std::uint32_t>(entry.value.type));
    add(hash, entry.value.bytes);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    add(hash, tensor.name);
    add(hash, tensor.format->name);
    add(hash, tensor.shape_text());
    std::array<std::byte, kSampleBytes> bytes;
    const auto sample = std::span(bytes).first(std::min(kSampleBytes, tensor.data.size()));
    for (const auto data : {tensor.data.first(sample.size()), tensor.data.last(sample.size())}) {
      if (auto read = file.read(data, sample); !read) return Unexpected{std::move(read.error())};
      add(hash, sample);
    }
  }
  return hash.finish();
}

}  // namespace kvpage::engine
