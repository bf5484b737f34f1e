#include "engine/model/model_digest.hpp"

#include <algorithm>

namespace kvpage::engine {
namespace {

constexpr std::size_t kSampleBytes = 1024;

/// Length and content, so that neighbouring fields cannot run into each other.
void add(Sha256& hash, std::span<const std::byte> field) {
  hash.u32(static_cast<std::uint32_t>(field.size())).bytes(field);
}
void add(Sha256& hash, std::string_view text) { add(hash, std::as_bytes(std::span(text))); }

}  // namespace

Sha256Digest model_digest(const Gguf& file) {
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
    const std::size_t sample = std::min(kSampleBytes, tensor.data.size());
    add(hash, tensor.data.first(sample));
    add(hash, tensor.data.last(sample));
  }
  return hash.finish();
}

}  // namespace kvpage::engine
