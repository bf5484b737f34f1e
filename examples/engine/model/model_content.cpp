#include "engine/model/model_content.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace kvpage::engine {
namespace {

/// Bytes that one worker reads at a time: they are still in its cache when they are hashed.
constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;

/// None if the file cannot be read.
Hash128 hash_of_piece(const MappedFile& file, std::span<const std::byte> piece) {
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(piece.size());
  const std::span bytes(memory.get(), piece.size());
  return file.read(piece, bytes) ? hash128(bytes) : Hash128{};
}

Hash128 hash_of(const Gguf& file, const LoadWork& work) {
  std::vector<Hash128> hashes;
  for (std::size_t part = 0; part < file.num_parts(); ++part) {
    const auto bytes = file.part(part).bytes();
    const std::size_t first = hashes.size();
    hashes.resize(first + (bytes.size() + kPieceBytes - 1) / kPieceBytes);
    for_each_piece(work, "hashing", std::ssize(bytes), kPieceBytes, [&](std::int64_t i) {
      const auto begin = static_cast<std::size_t>(i * kPieceBytes);
      const auto piece = bytes.subspan(begin, std::min<std::size_t>(kPieceBytes, bytes.size() - begin));
      hashes[first + static_cast<std::size_t>(i)] = hash_of_piece(file.part(part), piece);
    });
    if (std::find(hashes.begin(), hashes.end(), Hash128{}) != hashes.end()) return {};
    hashes.push_back({bytes.size(), part});
  }
  return hash128(std::as_bytes(std::span(hashes)));
}

}  // namespace

const Hash128& ModelContent::hash() {
  if (!hash_) hash_ = hash_of(file_, work_);
  return *hash_;
}

Hash128 ModelContent::stamp() const {
  std::vector<FileStamp> stamps;
  for (std::size_t part = 0; part < file_.num_parts(); ++part) {
    if (!file_.part(part).stamp_is_telling()) return {};
    stamps.push_back(file_.part(part).stamp());
  }
  return hash128(std::as_bytes(std::span(stamps)));
}

void ModelContent::watch() {
  if (stamp() == Hash128{}) static_cast<void>(hash());
}

bool ModelContent::held() {
  if (hash() == Hash128{}) return false;
  if (stamp() == Hash128{} && hash_of(file_, work_) != hash()) return false;
  for (std::size_t part = 0; part < file_.num_parts(); ++part) {
    if (file_stamp(file_.part(part).path()) != file_.part(part).stamp()) return false;
  }
  return true;
}

}  // namespace kvpage::engine
