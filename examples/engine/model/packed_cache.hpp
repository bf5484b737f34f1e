/// \file PackedCache: the packed weights of a model in a file, so that the next start need not pack them.
#pragma once

#include "engine/loader/hash128.hpp"
#include "engine/model/model_content.hpp"

#include <kvpage/base/expected.hpp>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace kvpage::engine {

/// What a cache file is made for.
struct PackedCacheKey {
  std::filesystem::path folder;
  std::string isa;
  Hash128 layout;  ///< packed_layout
};

/// One cache file, named by the model's digest, the instruction set and kPanelLayoutVersion. It counts only if every byte is the one
/// that was written, and if it was made from the bytes that the model file has now: a changed file of either kind is said in a note
/// and replaced. Nothing here fails a load: what goes wrong is a note. Several processes may use one folder.
class PackedCache {
 public:
  /// Requires: what `work` and `file` refer to outlives it.
  PackedCache(const PackedCacheKey& key, const Gguf& file, const LoadWork& work);

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Fills `memory` with the panels of the model. False: there is no file for them, or it must not be used; `memory` then holds anything.
  bool restore(std::span<std::byte> memory);

  /// Writes `memory` to the file, whole or not at all. Requires: it holds the panels of the model.
  void store(std::span<const std::byte> memory);

 private:
  Expected<bool, std::string> read(std::span<std::byte> memory);
  Expected<void, std::string> write(std::span<const std::byte> memory);

  std::filesystem::path path_;
  Hash128 layout_;
  const LoadWork& work_;
  ModelContent content_;
};

}  // namespace kvpage::engine
