/// \file SplitName: the file name of one part of a model, as in name-00002-of-00005.gguf.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace kvpage::engine {

/// What the name of a part says.
struct SplitName {
  std::string prefix;       ///< path up to the part number
  std::uint32_t part = 0;   ///< from 0
  std::uint32_t num_parts = 1;

  /// Empty unless the name ends in -NNNNN-of-MMMMM.gguf with 1 <= NNNNN <= MMMMM.
  static std::optional<SplitName> parse(const std::filesystem::path& path);
  /// Requires: i < num_parts.
  std::filesystem::path part_path(std::uint32_t i) const;
};

}  // namespace kvpage::engine
