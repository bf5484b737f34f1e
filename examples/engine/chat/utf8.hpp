/// \file Code points of UTF-8 text: boundaries and whitespace, as Python's str has them. Invalid bytes count as one each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvpage::engine::chat {

/// A decoded code point and its bytes. An invalid byte decodes to itself plus kInvalidByte, length 1.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 1;
};
inline constexpr char32_t kInvalidByte = 0x8000'0000;

/// Requires: at < text.size().
CodePoint decode_at(std::string_view text, std::size_t at);
/// The code point that ends before `end`. Requires: 0 < end <= text.size().
CodePoint decode_before(std::string_view text, std::size_t end);
/// Appends the bytes of `value` (kInvalidByte values give their byte back).
void encode_to(std::string& text, char32_t value);

std::size_t count_code_points(std::string_view text);
/// Byte position of code point number `index`, text.size() if there are fewer.
std::size_t byte_offset(std::string_view text, std::size_t index);

bool is_valid_utf8(std::string_view text);
/// str.isspace of one code point.
bool is_space(char32_t value);
/// One of the line ends of str.splitlines.
bool is_line_end(char32_t value);

}  // namespace kvpage::engine::chat
