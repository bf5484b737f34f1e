/// \file format(value, spec) of strings, integers and floats.
#include "engine/chat/functions.hpp"
#include "engine/chat/text.hpp"
#include "engine/chat/value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace kvpage::engine::chat {
namespace {

constexpr std::string_view kAligns = "<>=^", kIntegerTypes = "bcdoxXn", kFloatTypes = "eEfFgGn%";

bool is_in(std::string_view set, char c) { return c != '\0' && set.find(c) != std::string_view::npos; }

std::optional<std::size_t> read_number(std::string_view text, std::size_t& at) {
  const std::size_t begin = at;
  std::uint64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = checked_width(value * 10 + static_cast<std::uint64_t>(text[at] - '0'));
  }
  return at > begin ? std::optional{static_cast<std::size_t>(value)} : std::nullopt;
}

/// Digits and exponent of the nearest decimal number with `digits` digits.
struct Decimal {
  std::string digits;
  int exponent = 0;  // of the first digit
};

std::string printed(const char* format, std::size_t precision, double value) {
  std::string out(precision + 340, '\0');
  const int size = std::snprintf(out.data(), out.size(), format, static_cast<int>(precision), value);
  out.resize(static_cast<std::size_t>(size));
  return out;
}

Decimal decimal_of(double value, std::size_t digits) {
  const std::string text = printed("%.*e", digits - 1, value);
  const std::size_t mark = text.find('e');
  Decimal out{text.substr(0, mark), std::stoi(text.substr(mark + 1))};
  std::erase(out.digits, '.');
  return out;
}

/// The layout of 'g'; `keeps_point` for the form without a type, which shows at least one digit behind the point.
std::string general(double value, std::size_t precision, bool alternate, bool keeps_point) {
  precision = std::max<std::size_t>(precision, 1);
  Decimal number = decimal_of(value, precision);
  if (!alternate) {
    while (number.digits.size() > 1 && number.digits.back() == '0') number.digits.pop_back();
  }
  const int count = static_cast<int>(number.digits.size()), point = number.exponent + 1;
  if (point <= -4 || point > static_cast<int>(precision) - (keeps_point ? 1 : 0)) {
    std::string out = number.digits.substr(0, 1);
    if (count > 1 || alternate) out += "." + number.digits.substr(1);
    const int size = std::abs(number.exponent);
    return out + (number.exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
  }
  if (point <= 0) return "0." + std::string(static_cast<std::size_t>(-point), '0') + number.digits;
  if (point >= count) {
    const std::string whole = number.digits + std::string(static_cast<std::size_t>(point - count), '0');
    return whole + (keeps_point ? ".0" : alternate ? "." : "");
  }
  return number.digits.substr(0, static_cast<std::size_t>(point)) + "." + number.digits.substr(static_cast<std::size_t>(point));
}

std::string float_body(Budget& budget, double value, const FormatSpec& spec) {
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  const char type = static_cast<char>(spec.type | 0x20);
  if (type == '%') value *= 100.0;
  const std::string tail = spec.type == '%' ? "%" : "";
  if (!std::isfinite(value)) return (std::isnan(value) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf") + tail;
  const std::size_t precision = spec.precision.value_or(6);
  budget.charge_bytes(8 * precision + 400);
  std::string out;
  if (spec.type == '\0' && !spec.precision) {
    out = float_text(value);
  } else if (spec.type == '\0' || type == 'g' || type == 'n') {
    out = general(value, precision, spec.alternate, spec.type == '\0');
  } else {
    const char* const plain = type == 'e' ? "%.*e" : "%.*f";
    const char* const pointed = type == 'e' ? "%#.*e" : "%#.*f";
    out = printed(spec.alternate ? pointed : plain, precision, value);
  }
  if (upper) std::replace(out.begin(), out.end(), 'e', 'E');
  return out + tail;
}

std::string prefix_of(const FormatSpec& spec) {
  if (!spec.alternate || !is_in("boxX", spec.type)) return "";
  return std::string{"0"} + spec.type;
}

/// Separators between groups of digits, and zeros in front up to `width` bytes when zeros fill.
std::string grouped(const std::string& body, const FormatSpec& spec, std::size_t width) {
  std::size_t whole = 0;
  while (whole < body.size() && std::isxdigit(static_cast<unsigned char>(body[whole])) != 0 &&
         (is_in("xXb", spec.type) || body[whole] <= '9'))
    ++whole;
  const std::size_t step = is_in("boxX", spec.type) ? 4 : 3;
  const std::size_t rest = body.size() - whole;
  std::string reversed;
  for (std::size_t i = 0; i < whole || reversed.size() + rest < width; ++i) {
    if (spec.grouping != '\0' && i > 0 && i % step == 0) reversed.push_back(spec.grouping);
    reversed.push_back(i < whole ? body[whole - 1 - i] : '0');
  }
  std::reverse(reversed.begin(), reversed.end());
  return reversed + body.substr(whole);
}

void require_number_spec(const Value& value, const FormatSpec& spec) {
  const bool is_float = value.as_number() != nullptr;
  const bool as_integer = !is_float && (spec.type == '\0' || is_in(kIntegerTypes, spec.type));
  if (!as_integer && spec.type != '\0' && !is_in(kFloatTypes, spec.type)) {
    fail_runtime(std::string{"the format code '"} + spec.type + "' does not fit " + std::string{value.type_name()});
  }
  if (as_integer && spec.precision) fail_runtime("an integer is formatted without a precision");
  const bool by_four = as_integer && is_in("boxX", spec.type);
  if (spec.grouping != '\0' && (spec.type == 'n' || spec.type == 'c' || (by_four && spec.grouping == ','))) {
    fail_runtime(std::string{"the format code '"} + spec.type + "' goes without '" + spec.grouping + "'");
  }
  if (spec.type == 'c' && (spec.sign != '-' || spec.alternate)) fail_runtime("the format code 'c' goes without sign and '#'");
}

TrustedText formatted_text(Budget& budget, const TrustedText& text, const FormatSpec& spec) {
  if ((spec.type != '\0' && spec.type != 's') || spec.sign != '-' || spec.alternate || spec.grouping != '\0' || spec.align == '=') {
    fail_runtime("this format does not fit a string");
  }
  const std::size_t end = spec.precision ? byte_offset(text.bytes(), *spec.precision) : text.size();
  return padded(budget, text.slice(0, end), spec, '<');
}

}  // namespace

std::size_t checked_width(std::uint64_t width) {
  if (width > kMaxOutputBytes) {
    fail(TemplateErrorKind::kLimit, "formats to more than " + std::to_string(kMaxOutputBytes) + " bytes");
  }
  return static_cast<std::size_t>(width);
}

FormatSpec parse_format_spec(const TrustedText& source) {
  const std::string_view text = source.bytes();
  FormatSpec spec;
  std::size_t at = 0;
  const auto take = [&](std::string_view set) { return at < text.size() && is_in(set, text[at]) ? text[at++] : '\0'; };
  const std::size_t first = text.empty() ? 0 : decode_at(text, 0).bytes;
  if (first > 0 && first < text.size() && is_in(kAligns, text[first])) {
    spec.fill = source.slice(0, first);
    spec.align = text[first];
    at = first + 1;
  } else {
    spec.align = take(kAligns);
  }
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != '\0';
  if (spec.fill.empty() && at < text.size() && text[at] == '0') {
    spec.fill = source.slice(at, at + 1);
    if (spec.align == '\0') spec.align = '0';  // '=' for numbers, nothing for strings
    ++at;
  }
  spec.width = read_number(text, at).value_or(0);
  spec.grouping = take(",_");
  if (take(".") != '\0') {
    spec.precision = read_number(text, at);
    if (!spec.precision) fail_runtime("a format lacks the digits of its precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail_runtime("'" + std::string{text} + "' is no format");
  return spec;
}

TrustedText padded(Budget& budget, const TrustedText& text, const FormatSpec& spec, char default_align) {
  const std::size_t held = spec.width > 0 ? count_code_points(text.bytes()) : 0;
  if (spec.width <= held) return text;
  const std::size_t missing = spec.width - held;
  const char align = spec.align == '\0' || spec.align == '0' ? default_align : spec.align;
  const std::size_t before = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
  static const TrustedText kBlank = TrustedText::untrusted(" ");
  const TrustedText& fill = spec.fill.empty() ? kBlank : spec.fill;
  budget.charge_bytes(text.size() + missing * fill.size() + 16 * missing);
  TrustedText out;
  for (std::size_t i = 0; i < before; ++i) out.append(fill);
  out.append(text);
  for (std::size_t i = before; i < missing; ++i) out.append(fill);
  return out;
}

std::string number_body(Budget& budget, const Value& number, const FormatSpec& spec, bool& negative) {
  if (const double* held = number.as_number()) {
    negative = std::signbit(*held) && !std::isnan(*held);
    return float_body(budget, std::abs(*held), spec);
  }
  const BigInteger whole = *number.whole();
  negative = whole.is_negative();
  if (is_in("eEfFgG%", spec.type)) {
    const double value = whole.nearest();
    if (!std::isfinite(value)) fail_runtime("an integer is too large for a float");
    return float_body(budget, std::abs(value), spec);
  }
  budget.charge(1 + whole.limbs() * whole.limbs() / 16);
  const unsigned base = spec.type == 'b' ? 2 : spec.type == 'o' ? 8 : spec.type == 'x' || spec.type == 'X' ? 16 : 10;
  std::string digits = (negative ? -whole : whole).text(base);
  if (spec.type == 'X')
    std::transform(digits.begin(), digits.end(), digits.begin(), [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  return digits;
}

TrustedText padded_number(Budget& budget, std::string body, bool negative, const FormatSpec& spec) {
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const std::string head = sign + prefix_of(spec);
  const bool zeros = spec.fill.bytes() == "0" && (spec.align == '=' || spec.align == '0');
  const std::size_t width = zeros && spec.width > head.size() ? spec.width - head.size() : 0;
  budget.charge_bytes(body.size() + width);
  body = grouped(body, spec, width);
  if (spec.align != '=' && spec.align != '0') return padded(budget, TrustedText::untrusted(head + body), spec, '>');
  FormatSpec inner = spec;
  inner.width = spec.width > head.size() ? spec.width - head.size() : 0;
  TrustedText out = TrustedText::untrusted(head);
  out.append(padded(budget, TrustedText::untrusted(std::move(body)), inner, '>'));
  return out;
}

TrustedText formatted(Budget& budget, const Value& value, const FormatSpec& spec) {
  if (const TrustedText* text = value.as_text()) return formatted_text(budget, *text, spec);
  if (!is_number(value)) fail_runtime("a " + std::string{value.type_name()} + " has no formats");
  require_number_spec(value, spec);
  if (spec.type == 'c') {
    const auto code = value.whole()->narrow();
    if (!code || *code < 0 || *code > 0x10FFFF || (*code >= 0xD800 && *code <= 0xDFFF))
      fail_runtime("the format code 'c' needs a character");
    std::string one;
    encode_to(one, static_cast<char32_t>(*code));
    return padded(budget, TrustedText::untrusted(std::move(one)), spec, '>');
  }
  bool negative = false;
  std::string body = number_body(budget, value, spec, negative);
  return padded_number(budget, std::move(body), negative, spec);
}

namespace {

constexpr auto kNpos = std::string_view::npos;

std::optional<std::int64_t> index_of(std::string_view digits) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = !digits.empty() && digits[0] != '-' && parsed.ec == std::errc{} && parsed.ptr == digits.data() + digits.size();
  return whole ? std::optional{value} : std::nullopt;
}

class BraceFormat {
 public:
  BraceFormat(Budget& budget, const TrustedText& format, const Arguments& arguments)
      : budget_(budget), format_(format), arguments_(arguments) {}

  TrustedText run() { return expand(format_, 2); }

 private:
  TrustedText expand(const TrustedText& format, int levels) {
    if (levels == 0) fail_runtime("a format nests too deep");
    const std::string_view text = format.bytes();
    budget_.charge_bytes(text.size());
    TrustedText out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append_slice(format, at, brace);
      if (brace == text.size()) break;
      at = brace + 1;
      if (at < text.size() && text[at] == text[brace]) {
        out.append_slice(format, at, at + 1);
        ++at;
      } else if (text[brace] == '}') {
        fail_runtime("a format has a single '}'");
      } else {
        out.append(field(format, at, levels));
      }
    }
    return out;
  }

  /// The field behind the brace before `at`, which moves behind its end.
  TrustedText field(const TrustedText& format, std::size_t& at, int levels) {
    const std::string_view text = format.bytes();
    const std::size_t begin = at;
    bool in_brackets = false;
    for (; at < text.size() && (in_brackets || std::string_view{"{}:!"}.find(text[at]) == kNpos); ++at) {
      in_brackets = text[at] == '[' || (in_brackets && text[at] != ']');
    }
    if (at == text.size() || text[at] == '{') fail_runtime("a format has a '{' without its end");
    const Value value = lookup(text.substr(begin, at - begin));
    char conversion = '\0';
    if (text[at] == '!') {
      if (at + 2 >= text.size() || (text[at + 2] != ':' && text[at + 2] != '}')) fail_runtime("a format lacks its conversion");
      conversion = text[at + 1];
      at += 2;
    }
    TrustedText spec;
    if (text[at] == ':') spec = specification(format, ++at, levels);
    ++at;
    return written(value, conversion, spec);
  }

  TrustedText specification(const TrustedText& format, std::size_t& at, int levels) {
    const std::string_view text = format.bytes();
    const std::size_t begin = at;
    int open = 1;
    for (; at < text.size(); ++at) {
      open += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (at == text.size()) fail_runtime("a format has a '{' without its end");
    const TrustedText spec = format.slice(begin, at);
    return spec.bytes().find('{') == kNpos ? spec : expand(spec, levels - 1);
  }

  TrustedText written(const Value& held, char conversion, const TrustedText& spec) {
    const Value value = conversion != '\0' ? Value::text(converted(budget_, held, conversion)) : held;
    const TrustedText* text = value.as_text();
    if (format_.is_markup() && text != nullptr && text->is_markup() && !spec.empty())
      fail_runtime("markup is formatted without a specification");
    return put_into(budget_, spec.empty() ? to_text(budget_, value) : formatted(budget_, value, parse_format_spec(spec)),
                    format_.is_markup());
  }

  /// name, name.attribute, name[key] ...
  Value lookup(std::string_view path) {
    std::size_t at = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, at));
    while (at < path.size()) {
      const bool by_key = path[at] == '[';
      const std::size_t begin = at + 1;
      at = std::min(by_key ? path.find(']', begin) : path.find_first_of(".[", begin), path.size());
      const std::string_view name = path.substr(begin, at - begin);
      if (by_key && at++ == path.size()) fail_runtime("a format has a '[' without its end");
      if (name.empty() || (by_key && at < path.size() && path[at] != '.' && path[at] != '[')) fail_runtime("a format has an empty name");
      const auto index = by_key ? index_of(name) : std::nullopt;
      if (!index) require_public_key(name);
      value = index    ? subscript(budget_, value, Value::integer(*index))
              : by_key ? subscript(budget_, value, Value::text(std::string{name}))
                       : attribute(budget_, value, name);
    }
    return value;
  }

  Value argument(std::string_view name) {
    const auto index = name.empty() ? std::optional{next_} : index_of(name);
    if (!index) {
      budget_.charge(search_steps(arguments_.named.size(), name));
      for (const auto& [given, value] : arguments_.named) {
        if (given == name) return value;
      }
      fail_runtime("a format names '" + std::string{name} + "', which is not given");
    }
    if ((name.empty() ? numbered_ : next_ > 0)) fail_runtime("a format mixes numbered fields with others");
    name.empty() ? ++next_ : (numbered_ = true, next_);
    if (*index >= static_cast<std::int64_t>(arguments_.positional.size())) {
      fail_runtime("a format needs argument " + std::to_string(*index) + " of " + std::to_string(arguments_.positional.size()));
    }
    return arguments_.positional[static_cast<std::size_t>(*index)];
  }

  Budget& budget_;
  const TrustedText& format_;
  const Arguments& arguments_;
  std::int64_t next_ = 0;
  bool numbered_ = false;
};

}  // namespace

TrustedText put_into(Budget& budget, const TrustedText& text, bool markup) {
  return markup && !text.is_markup() ? escaped(budget, text) : text;
}

TrustedText converted(Budget& budget, const Value& value, char conversion) {
  if (conversion == 's') return to_text(budget, value);
  if (conversion == 'r') return to_repr(budget, value);
  if (conversion == 'a') return to_ascii(budget, value);
  fail_runtime(std::string{"the conversion '!"} + conversion + "' is unknown");
}

Value brace_format(Budget& budget, const TrustedText& format, const Arguments& arguments) {
  return Value::text(BraceFormat{budget, format, arguments}.run().set_markup(format.is_markup()));
}

}  // namespace kvpage::engine::chat
