/// \file The scanner: template data, tags and whitespace control, then the tokens inside of tags.
#include "engine/chat/syntax.hpp"
#include "engine/chat/text.hpp"
#include "engine/chat/value.hpp"
#include "engine/text/utf8.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace kvpage::engine::chat {
namespace {

constexpr auto kNpos = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// `\r\n` and `\r` become `\n`, one final newline is dropped.
std::string normal_newlines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out.push_back('\n');
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Scanner {
 public:
  explicit Scanner(std::string_view source) : source_(normal_newlines(source)), text_(source_) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) scan_data();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  struct EndTag {
    std::size_t begin = 0;  ///< where its text starts (the sign, if it has one)
    std::size_t end = 0;    ///< where scanning goes on
  };

  [[noreturn]] void syntax_error(std::string message) { fail(TemplateErrorKind::kSyntax, std::move(message), line_); }

  void add(TokenKind kind, std::string text) {
    if (kind != TokenKind::kData || !text.empty()) tokens_.push_back({kind, line_, std::move(text)});
  }

  void move_to(std::size_t at) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_), source_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    at_ = at;
  }

  bool starts_with(std::size_t at, std::string_view what) const { return text_.substr(std::min(at, text_.size())).starts_with(what); }
  char sign_at(std::size_t at) const { return at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : '\0'; }

  std::size_t skip_spaces(std::size_t at) const {
    while (at < text_.size()) {
      const CodePoint c = decode_at(text_, at);
      if (!is_space(c.value)) break;
      at += c.bytes;
    }
    return at;
  }

  /// Where scanning goes on behind the `%}` or `#}` at `tag`, with the sign before it.
  std::size_t behind_end_tag(char sign, std::size_t tag) const {
    const std::size_t after = tag + 2;
    if (sign == '-') return skip_spaces(after);
    return sign != '+' && starts_with(after, "\n") ? after + 1 : after;
  }

  /// An end tag exactly at `at`: `-%}`, `+%}` or `%}`; `}}` knows no `+` and keeps its newline.
  std::optional<EndTag> end_tag_at(std::size_t at, bool variable) const {
    const char sign = sign_at(at);
    const std::size_t tag = sign != '\0' ? at + 1 : at;
    if (!starts_with(tag, variable ? "}}" : "%}") || (variable && sign == '+')) return std::nullopt;
    if (variable) return EndTag{at, sign == '-' ? skip_spaces(tag + 2) : tag + 2};
    return EndTag{at, behind_end_tag(sign, tag)};
  }

  /// Emits the data before a tag, cut as its sign says.
  void add_data_before(std::size_t tag, char sign, bool variable) {
    std::size_t end = tag;
    if (sign == '-') {
      while (end > at_) {
        const CodePoint c = decode_before(text_.substr(at_, end - at_), end - at_);
        if (!is_space(c.value)) break;
        end -= c.bytes;
      }
    } else if (sign != '+' && !variable) {
      const std::size_t newline = text_.substr(at_, tag - at_).rfind('\n');
      const std::size_t line_begin = newline == kNpos ? at_ : at_ + newline + 1;
      const bool starts_line = line_begin > at_ || at_ == 0 || text_[at_ - 1] == '\n';
      if (starts_line && skip_spaces(line_begin) >= tag) end = line_begin;
    }
    add(TokenKind::kData, std::string{text_.substr(at_, end - at_)});
    move_to(tag);
  }

  void scan_data() {
    std::size_t tag = at_;
    while ((tag = text_.find('{', tag)) != kNpos && !starts_with(tag, "{{") && !starts_with(tag, "{%") && !starts_with(tag, "{#")) ++tag;
    if (tag == kNpos) {
      add(TokenKind::kData, std::string{text_.substr(at_)});
      return move_to(text_.size());
    }
    const char kind = text_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data_before(tag, sign, kind == '{');
    const std::size_t inside = tag + 2 + (sign != '\0' ? 1 : 0);
    if (kind == '#') return scan_comment(inside);
    if (kind == '%') {
      if (const auto body = raw_tag_end(inside)) return scan_raw(*body);
    }
    add(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    move_to(inside);
    scan_tag(kind == '{');
  }

  void scan_comment(std::size_t inside) {
    const std::size_t tag = text_.find("#}", inside);
    if (tag == kNpos) syntax_error("a comment does not end; missing #}");
    const char sign = tag > inside ? sign_at(tag - 1) : '\0';
    move_to(behind_end_tag(sign, tag));
  }

  /// The position behind `raw %}` if the tag whose inside starts here is one.
  std::optional<std::size_t> raw_tag_end(std::size_t inside) const {
    const std::size_t name = skip_spaces(inside);
    if (!starts_with(name, "raw")) return std::nullopt;
    const std::size_t close = skip_spaces(name + 3);
    if (starts_with(close, "-%}")) return skip_spaces(close + 3);
    if (starts_with(close, "%}")) return close + 2;
    return std::nullopt;
  }

  void scan_raw(std::size_t body) {
    const int opened = line_;
    move_to(body);
    for (std::size_t tag = text_.find("{%", at_); tag != kNpos; tag = text_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      const std::size_t name = skip_spaces(tag + 2 + (sign != '\0' ? 1 : 0));
      if (!starts_with(name, "endraw")) continue;
      const auto close = end_tag_at(skip_spaces(name + 6), false);
      if (!close) continue;
      add_data_before(tag, sign, false);
      return move_to(close->end);
    }
    fail(TemplateErrorKind::kSyntax, "a raw block does not end; missing {% endraw %}", opened);
  }

  void scan_tag(bool variable) {
    const int opened = line_;
    std::string open_brackets;
    while (at_ < text_.size()) {
      const auto end = open_brackets.empty() ? end_tag_at(at_, variable) : std::nullopt;
      if (end) {
        add(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
        return move_to(end->end);
      }
      const std::size_t blank_end = skip_spaces(at_);
      if (blank_end != at_) {
        move_to(blank_end);
      } else {
        scan_token(open_brackets);
      }
    }
    fail(TemplateErrorKind::kSyntax, variable ? "an expression does not end; missing }}" : "a tag does not end; missing %}", opened);
  }

  void scan_token(std::string& open_brackets) {
    const char c = text_[at_];
    if (is_digit(c)) return scan_number();
    if (c == '\'' || c == '"') return scan_string(c);
    const std::size_t end = name_end();
    if (end > at_) return add_and_move(TokenKind::kName, end);
    scan_operator(open_brackets);
  }

  /// Letters of every script may stand in names; `at_` when there is none.
  std::size_t name_end() const {
    std::size_t end = at_;
    while (end < text_.size()) {
      const CodePoint c = decode_at(text_, end);
      const bool fits = c.value < 0x80 ? is_word(text_[end]) : has_property(c.value, end == at_ ? kStartsIdentifier : kContinuesIdentifier);
      if (!fits) break;
      end += c.bytes;
    }
    return end;
  }

  void add_and_move(TokenKind kind, std::size_t end) {
    add(kind, std::string{text_.substr(at_, end - at_)});
    move_to(end);
  }

  std::size_t skip_digits(std::size_t at) const {
    while (at < text_.size() && (is_digit(text_[at]) || (text_[at] == '_' && at + 1 < text_.size() && is_digit(text_[at + 1])))) ++at;
    return at;
  }

  /// 0x1f, 0o17, 0b11.
  bool scan_prefixed_integer() {
    const char letter = at_ + 2 < text_.size() && text_[at_] == '0' ? static_cast<char>(text_[at_ + 1] | 0x20) : '\0';
    const std::string_view digits = letter == 'x' ? "0123456789abcdefABCDEF" : letter == 'o' ? "01234567" : letter == 'b' ? "01" : "";
    std::size_t end = at_ + 2;
    while (end < text_.size() &&
           (digits.find(text_[end]) != kNpos || (text_[end] == '_' && end + 1 < text_.size() && digits.find(text_[end + 1]) != kNpos)))
      ++end;
    if (digits.empty() || end == at_ + 2) return false;
    std::string text{text_.substr(at_, end - at_)};
    std::erase(text, '_');
    add(TokenKind::kInteger, std::move(text));
    move_to(end);
    return true;
  }

  void scan_number() {
    if (scan_prefixed_integer()) return;
    std::size_t end = skip_digits(at_);
    bool is_float = false;
    const auto digit_at = [&](std::size_t at) { return at < text_.size() && is_digit(text_[at]); };
    if (at_ == 0 || text_[at_ - 1] != '.') {  // in a.0.1 the numbers are indices
      if (starts_with(end, ".") && digit_at(end + 1)) end = skip_digits(end + 1), is_float = true;
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        const std::size_t exponent = end + 1 + (sign_at(end + 1) != '\0' ? 1 : 0);
        if (digit_at(exponent)) end = skip_digits(exponent), is_float = true;
      }
    }
    std::string digits{text_.substr(at_, end - at_)};
    std::erase(digits, '_');
    if (!is_float && digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != kNpos) {
      syntax_error("the integer " + digits + " starts with a zero");
    }
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(digits));
    move_to(end);
  }

  void scan_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) syntax_error("a string does not end");
    add(TokenKind::kString, unescape_literal(text_.substr(at_ + 1, end - at_ - 1), line_));
    move_to(end + 1);
  }

  void scan_operator(std::string& open_brackets) {
    static constexpr std::array<std::string_view, 26> kOperators{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                                                 "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto found = std::find_if(kOperators.begin(), kOperators.end(), [&](auto op) { return starts_with(at_, op); });
    if (found == kOperators.end()) {
      syntax_error("unexpected character '" + std::string{text_.substr(at_, decode_at(text_, at_).bytes)} + "' inside of a tag");
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') open_brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty() || open_brackets.back() != c) syntax_error(std::string{"unexpected '"} + c + "'");
      open_brackets.pop_back();
    }
    add_and_move(TokenKind::kOperator, at_ + found->size());
  }

  std::string source_;
  std::string_view text_;  // = source_
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> scan_template(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    fail(TemplateErrorKind::kLimit,
         "has " + std::to_string(source.size()) + " bytes; at most " + std::to_string(kMaxSourceBytes) + " are allowed");
  }
  if (find_invalid_utf8(source) != std::string_view::npos) fail(TemplateErrorKind::kSyntax, "is not valid UTF-8");
  return Scanner{source}.run();
}

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
