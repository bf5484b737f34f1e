/// \file Operations of Python's str on texts: code points, case, cutting and joining, formats.
#pragma once

#include "engine/chat/functions.hpp"
#include "engine/chat/value.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// str.isspace of one code point.
bool is_space(char32_t value);
/// One of the line ends of str.splitlines.
bool is_line_end(char32_t value);

/// Bits of properties_of, each named after the method of str that asks for it.
enum CharProperty : std::uint16_t {
  kIsPrintable = 1,
  kIsAlpha = 2,
  kIsDecimal = 4,
  kIsDigit = 8,
  kIsNumeric = 16,
  kIsUpper = 32,
  kIsLower = 64,
  kIsCased = 128,
  kIsCaseIgnorable = 256,
  kStartsIdentifier = 512,
  kContinuesIdentifier = 1024,
};
unsigned properties_of(char32_t value);
inline bool has_property(char32_t value, unsigned bits) { return (properties_of(value) & bits) != 0; }

enum class CaseMap : std::uint8_t { kLower, kUpper, kTitle, kFold };
/// One character mapped without looking at its neighbours; may be several.
void append_mapped(std::string& out, CaseMap map, char32_t value);

/// str.lower, str.upper, str.casefold of a whole text; a sigma at the end of a word becomes the final one in lower case.
std::string mapped(std::string_view text, CaseMap map);
/// str.title, str.capitalize, str.swapcase.
std::string title_cased(std::string_view text);
std::string capitalized(std::string_view text);
std::string case_swapped(std::string_view text);
/// str.isupper, str.islower, str.istitle.
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);
bool is_title_text(std::string_view text);
/// The value of a decimal digit of any script; requires kIsDecimal.
int digit_of(char32_t value);

/// Both sides, one side.
enum class Side : std::uint8_t { kBoth, kLeft, kRight };

/// Without the leading / trailing code points that occur in `*chars`, or without whitespace if `chars` is nullptr.
TrustedText trimmed(Budget& budget, const TrustedText& text, Side side, const TrustedText* chars);
/// At most `max_splits` cuts (negative = all), from the right if `from_right`; nullptr = at runs of whitespace.
/// Errors: kRuntime for an empty separator.
std::vector<TrustedText> split(Budget& budget, const TrustedText& text, const TrustedText* separator, std::int64_t max_splits,
                               bool from_right);
std::vector<TrustedText> split_lines(Budget& budget, const TrustedText& text, bool keep_ends);
TrustedText replaced(Budget& budget, const TrustedText& text, const TrustedText& old_part, const TrustedText& new_part,
                     std::int64_t max_count);

/// A changed copy of the whole text; trusted only if all of it was.
TrustedText recast(const TrustedText& from, std::string bytes);

/// The text with every character mapped; trusted only if all of it was.
TrustedText recased(Budget& budget, const TrustedText& text, CaseMap map);
/// `transform` of the whole text, under the same rule.
TrustedText recased(Budget& budget, const TrustedText& text, std::string (*transform)(std::string_view));
/// The filter `title`: words start behind blanks, hyphens and opening brackets.
std::string filter_title(std::string_view text);

/// With & < > ' " as HTML writes them; each byte keeps its trust. The result is markup.
TrustedText escaped(Budget& budget, const TrustedText& text);

/// Refuses a key or attribute with `_` in front. Errors: kUnsupported.
void require_public_key(std::string_view name);

/// str(value): what an output or `~` writes. Errors: kRuntime for values without a text (iterators, namespaces, loop).
TrustedText to_text(Budget& budget, const Value& value);
/// repr(value) and ascii(value); nothing in them is trusted.
TrustedText to_repr(Budget& budget, const Value& value);
TrustedText to_ascii(Budget& budget, const Value& value);

/// The arguments of json.dumps that templates use.
struct JsonStyle {
  std::optional<std::string> indent;  ///< one level; absent = one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
/// json.dumps(value). Errors: kRuntime for values that JSON cannot hold, undefined among them.
std::string to_json(Budget& budget, const Value& value, const JsonStyle& style);

/// The shortest digits that give the number back, laid out as Python does (`1.0`, `1e-05`).
std::string float_text(double value);

/// [[fill]align][sign][#][0][width][grouping][.precision][type]; the parts of a printf conversion fit into it, too.
struct FormatSpec {
  TrustedText fill;  ///< one character; empty = a blank
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  std::size_t width = 0;
  char grouping = '\0';
  std::optional<std::size_t> precision;
  char type = '\0';
};
/// Errors: kRuntime for what is no specification, kLimit for a width or precision beyond kMaxOutputBytes.
FormatSpec parse_format_spec(const TrustedText& text);

/// format(value, spec). Errors: kRuntime when the value's type does not know the specification.
TrustedText formatted(Budget& budget, const Value& value, const FormatSpec& spec);
/// An integer or float as `spec` says, without sign and padding; `negative` is filled in.
std::string number_body(Budget& budget, const Value& number, const FormatSpec& spec, bool& negative);
/// `body` between sign, prefix and fill. Numbers go to the right by default.
TrustedText padded_number(Budget& budget, std::string body, bool negative, const FormatSpec& spec);
TrustedText padded(Budget& budget, const TrustedText& text, const FormatSpec& spec, char default_align);

/// What Markup does to a text that is put into it.
TrustedText put_into(Budget& budget, const TrustedText& text, bool markup);
/// The value as !s, !r or !a writes it.
TrustedText converted(Budget& budget, const Value& value, char conversion);

/// format.format(arguments): bytes of the format and of strings among the arguments keep their trust, what is made here has none.
/// Errors: kRuntime, kLimit; kUnsupported for a name with `_` in front.
Value brace_format(Budget& budget, const TrustedText& format, const Arguments& arguments);
/// format % argument, under the same rules.
Value printf_format(Budget& budget, const TrustedText& format, const Value& argument);

/// Errors: kLimit when a text of that many bytes would exceed kMaxOutputBytes.
std::size_t checked_width(std::uint64_t width);

}  // namespace kvpage::engine::chat
