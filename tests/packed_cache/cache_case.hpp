/// \file CacheCase: a packed cache of any bytes for a small model file, without loading it.
#pragma once

#include "engine/model/packed_cache.hpp"
#include "engine/tiny_models.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace kvpage_test {

using kvpage::engine::PackedCache;

/// Bytes that depend on their place.
inline std::vector<std::byte> panels_of(std::size_t num_bytes) {
  std::vector<std::byte> bytes(num_bytes);
  for (std::size_t i = 0; i < num_bytes; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + 1) >> 11);
  return bytes;
}

/// A folder, a model, and what its cache said and did.
class CacheCase {
 public:
  explicit CacheCase(std::size_t num_bytes) : panels(panels_of(num_bytes)) {
    work.parallel = [](std::int64_t n, const kvpage::engine::IndexedTask& body) {
      for (std::int64_t i = 0; i < n; ++i) body(i);
    };
    work.note = [this](std::string_view text) { notes.emplace_back(text); };
    work.progress = [this](const kvpage::engine::Progress& report) { stages.emplace_back(report.stage); };
  }

  kvpage::engine::PackedCacheKey key() const { return {folder, "some-isa", {1, 2}}; }
  PackedCache cache() const { return PackedCache(key(), model.gguf(), work); }
  std::filesystem::path path() const { return cache().path(); }
  /// Notes since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes, {}); }

  /// Restores into fresh memory. True: it is what was stored, and that bit for bit.
  bool restores(PackedCache& from) {
    std::vector<std::byte> memory(panels.size());
    const bool restored = from.restore(memory);
    if (restored) CHECK(memory == panels);
    return restored;
  }
  bool restores() {
    PackedCache fresh = cache();
    return restores(fresh);
  }
  void store() { cache().store(panels); }
  /// Files in the folder.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TempDir dir;
  std::filesystem::path folder = dir / "cache";
  TinyFile model{TinyModel{}};
  std::vector<std::byte> panels;
  std::vector<std::string> notes, stages;
  kvpage::engine::LoadWork work;
};

}  // namespace kvpage_test
