/// \file Python's three ways to format: format(value, spec), str.format and str % arguments.
#pragma once

#include "engine/chat/arguments.hpp"
#include "engine/chat/budget.hpp"
#include "engine/chat/value.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvpage::engine::chat {

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
