/// \file Text of LoadError.
#include "engine/loader/load_error.hpp"

#include <cstdio>

namespace kvpage::engine {

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  for (const char c : text.substr(0, max_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\'' && c != '\\') {
      out += c;
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned>(byte));
      out += escaped;
    }
  }
  if (text.size() > max_bytes) out += "...";
  return out;
}

std::string LoadError::to_string() const {
  std::string text = "cannot load " + file;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';  // a path may hold a newline; the text stays three lines
  }
  if (!item.empty()) text += ": " + item;
  text += "\n  wanted " + wanted + ", found " + found;
  text += "\n  hint: " + hint;
  return text;
}

}  // namespace kvpage::engine
