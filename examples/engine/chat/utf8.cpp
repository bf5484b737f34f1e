/// \file UTF-8 decoding, and the whitespace of Python's str.
#include "engine/chat/utf8.hpp"

namespace kvpage::engine::chat {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

bool in_range(char32_t value, char32_t low, char32_t high) { return value >= low && value <= high; }

}  // namespace

CodePoint decode_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const char32_t lead = byte(at);
  const CodePoint invalid{lead | kInvalidByte, 1};
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return invalid;
  char32_t value = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[at + i])) return invalid;
    value = value << 6 | (byte(at + i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF || in_range(value, 0xD800, 0xDFFF)) return invalid;
  return {value, length};
}

CodePoint decode_before(std::string_view text, std::size_t end) {
  for (std::size_t length = 1; length <= 4 && length <= end; ++length) {
    if (is_continuation(text[end - length])) continue;
    const CodePoint found = decode_at(text.substr(0, end), end - length);
    if (found.bytes == length) return found;
    break;
  }
  return {static_cast<unsigned char>(text[end - 1]) | kInvalidByte, 1};
}

void encode_to(std::string& text, char32_t value) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if ((value & kInvalidByte) != 0 || value < 0x80) {
    put(value & 0xFFu);
  } else if (value < 0x800) {
    put(0xC0 | value >> 6), put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12), put(0x80 | (value >> 6 & 0x3F)), put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | value >> 18), put(0x80 | (value >> 12 & 0x3F)), put(0x80 | (value >> 6 & 0x3F)), put(0x80 | (value & 0x3F));
  }
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) ++count;
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += decode_at(text, at).bytes;
  return at;
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint found = decode_at(text, at);
    if ((found.value & kInvalidByte) != 0) return false;
    at += found.bytes;
  }
  return true;
}

bool is_space(char32_t c) {
  return in_range(c, 0x09, 0x0D) || in_range(c, 0x1C, 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 || in_range(c, 0x2000, 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_end(char32_t c) {
  return in_range(c, 0x0A, 0x0D) || in_range(c, 0x1C, 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace kvpage::engine::chat
