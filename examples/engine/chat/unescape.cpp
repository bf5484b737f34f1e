/// \file String literals: the escapes of Python.
#include "engine/chat/template_error.hpp"
#include "engine/chat/token.hpp"
#include "engine/chat/utf8.hpp"

#include <algorithm>

namespace kvpage::engine::chat {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

/// Reads up to `max_digits` digits of `base` from `at` on, moving it.
char32_t read_digits(std::string_view text, std::size_t& at, std::size_t max_digits, int base) {
  char32_t value = 0;
  const std::size_t stop = std::min(text.size(), at + max_digits);
  for (; at < stop && digit_value(text[at]) < base; ++at)
    value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(text[at]));
  return value;
}

char simple_escape(char c) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"";
  constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
  const auto at = kLetters.find(c);
  return at == std::string_view::npos ? '\0' : kValues[at];
}

void append_code(std::string& out, char32_t value, int line) {
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    fail(TemplateErrorKind::kSyntax, "a string escape names no Unicode character", line);
  }
  encode_to(out, value);
}

void append_escape(std::string& out, std::string_view text, std::size_t& at, int line) {
  const char kind = text[at];
  if (kind >= '0' && kind <= '7') return append_code(out, read_digits(text, at, 3, 8), line);
  ++at;
  if (kind == '\n') return;
  if (const char plain = simple_escape(kind); plain != '\0') return out.push_back(plain);
  const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits != 0) {
    const std::size_t begin = at;
    const char32_t value = read_digits(text, at, digits, 16);
    if (at - begin != digits) {
      fail(TemplateErrorKind::kSyntax, std::string{"the string escape \\"} + kind + " needs " + std::to_string(digits) + " hex digits",
           line);
    }
    return append_code(out, value, line);
  }
  if (kind == 'N' || static_cast<unsigned char>(kind) >= 0x80) {
    fail(TemplateErrorKind::kUnsupported, "a string escape that is not supported; write the character itself or \\uXXXX", line);
  }
  out.push_back('\\'), out.push_back(kind);
}

}  // namespace

std::string unescape_literal(std::string_view quoted, int line) {
  std::string out;
  for (std::size_t at = 0; at < quoted.size();) {
    if (quoted[at] != '\\' || at + 1 == quoted.size()) {
      out.push_back(quoted[at++]);
    } else {
      append_escape(out, quoted, ++at, line);
    }
  }
  return out;
}

}  // namespace kvpage::engine::chat
