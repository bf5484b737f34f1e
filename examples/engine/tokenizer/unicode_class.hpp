/// \file CharClass: whether a character is a letter, a number, a space or something else, as pre-tokenizers ask.
#pragma once

#include "engine/tokenizer/unicode_class_runs.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpage::engine {

/// The classes, numbered as in kUnicodeClassRuns.
enum class CharClass : std::uint8_t {
  kOther = 0,
  kLetter = 1,  ///< general category L
  kNumber = 2,  ///< general category N
  kSpace = 3,   ///< property White_Space
};

/// The class of every code point, in two stages: equal blocks of 256 code points are stored once.
class CharClassTable {
 public:
  CharClassTable() {
    std::vector<CharClass> all;
    all.reserve(kCodePoints);
    for (const std::uint32_t run : kUnicodeClassRuns) all.insert(all.end(), run / 4, static_cast<CharClass>(run % 4));
    all.resize(kCodePoints, CharClass::kOther);
    for (std::size_t block = 0; block < block_of_.size(); ++block) {
      Block content;
      for (std::size_t i = 0; i < kBlock; ++i) content[i] = all[block * kBlock + i];
      std::size_t index = block == 0 ? 0 : block_of_[block - 1];  // most blocks are like the one before
      if (index == blocks_.size() || blocks_[index] != content) index = 0;
      while (index < blocks_.size() && blocks_[index] != content) ++index;
      if (index == blocks_.size()) blocks_.push_back(content);
      block_of_[block] = static_cast<std::uint8_t>(index);
    }
  }

  /// Requires: code_point <= 0x10FFFF.
  CharClass operator[](std::uint32_t code_point) const noexcept { return blocks_[block_of_[code_point / kBlock]][code_point % kBlock]; }

 private:
  static constexpr std::size_t kCodePoints = 0x110000;
  static constexpr std::size_t kBlock = 256;
  using Block = std::array<CharClass, kBlock>;

  std::array<std::uint8_t, kCodePoints / kBlock> block_of_{};
  std::vector<Block> blocks_;
};

/// The table, made when it is first needed. Threads: any.
inline const CharClassTable& char_classes() {
  static const CharClassTable table;
  return table;
}

}  // namespace kvpage::engine
