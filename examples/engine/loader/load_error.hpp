/// \file LoadError: why a file cannot be used, in the same five parts for every loader.
#pragma once

#include <string>
#include <string_view>

namespace kvpage::engine {

/// Why a file cannot be used. Every part is printable text; `file` is never empty.
struct LoadError {
  std::string file;    ///< path as the user gave it
  std::string item;    ///< the key, tensor or offset in question; empty = the file as a whole
  std::string wanted;  ///< what a good file has there
  std::string found;   ///< what this file has there
  std::string hint;    ///< what to do about it

  /// Exactly three lines without a final newline, ready for a terminal.
  std::string to_string() const;
};

/// `text` made safe for a terminal and short: control bytes, quotes and non-ASCII bytes become \xNN, a long tail becomes "...".
std::string printable(std::string_view text, std::size_t max_bytes = 64);

}  // namespace kvpage::engine
