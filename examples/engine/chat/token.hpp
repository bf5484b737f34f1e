/// \file Tokens of a template, and the scanner that makes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine::chat {

enum class TokenKind : std::uint8_t {
  kData,  ///< text between tags, whitespace control applied
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  ///< text = the value, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;

  bool is_operator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

/// Splits `source` into tokens, the last one kEnd. One final newline is dropped, `\r\n` and `\r` become `\n`; a tag's
/// following newline goes (trim_blocks), blanks before a tag that starts a line go (lstrip_blocks), `-` and `+` override.
/// Errors: TemplateFailure (kSyntax, kUnsupported, kLimit) with the line.
/// Source: https://jinja.palletsprojects.com/en/3.1.x/templates/#whitespace-control
std::vector<Token> scan_template(std::string_view source);

/// The value of a string literal (the bytes between its quotes). Errors: kSyntax, kUnsupported.
std::string unescape_literal(std::string_view quoted, int line);

}  // namespace kvpage::engine::chat
