/// \file append_number: LEB128, in which the pages of traces hold their numbers.
#pragma once

#include <cstdint>
#include <string>

namespace kvpage::cli {

/// Seven bits per byte, lowest first; all but the last byte have their highest bit set. Source: DWARF 5, section 7.6 (unsigned LEB128).
inline void append_number(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

}  // namespace kvpage::cli
