/// \file The alphabet in which byte-level BPE vocabularies write bytes: one printable character for each byte.
#pragma once

#include "engine/text/utf8.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvpage::engine {

/// True for the bytes that stand for themselves: printable, not a space.
constexpr bool is_printable_latin(std::uint32_t c) noexcept {
  return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

/// The byte that each code point below 0x144 stands for, or -1. The other bytes are numbered upwards from U+0100.
/// Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", the published encoder.
inline constexpr auto kByteOfCodePoint = [] {
  std::array<std::int16_t, 0x144> table{};
  table.fill(-1);
  std::size_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::size_t code_point = is_printable_latin(byte) ? byte : next++;
    table[code_point] = static_cast<std::int16_t>(byte);
  }
  return table;
}();

/// Appends the bytes that `piece` stands for. Returns false, with `bytes` unchanged, if a character is outside the alphabet.
inline bool append_alphabet_bytes(std::string_view piece, std::string& bytes) {
  const std::size_t old_size = bytes.size();
  for (std::size_t i = 0; i < piece.size();) {
    const std::size_t begin = i;  // of a run of characters that are their own byte: most are
    while (i < piece.size() && piece[i] >= 0x21 && piece[i] <= 0x7E) ++i;
    bytes.append(piece, begin, i - begin);
    if (i == piece.size()) break;
    const Utf8Char c = decode_utf8(piece, i);
    const int byte = c.valid() && c.code_point < kByteOfCodePoint.size() ? kByteOfCodePoint[c.code_point] : -1;
    if (byte < 0) {
      bytes.resize(old_size);
      return false;
    }
    bytes.push_back(static_cast<char>(byte));
    i += c.length;
  }
  return true;
}

}  // namespace kvpage::engine
