/// \file Values as text (Python's str and repr), and the filters of numbers.
#include "engine/chat/functions.hpp"
#include "engine/chat/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace kvpage::engine::chat {
namespace {

void append_hex(std::string& out, char kind, char32_t value, int digits) {
  out.push_back('\\'), out.push_back(kind);
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out.push_back("0123456789abcdef"[value >> shift & 0xF]);
}

std::string quoted(std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text, at);
    at += c.bytes;
    if (c.value == static_cast<unsigned char>(quote) || c.value == '\\') {
      out.push_back('\\'), out.push_back(static_cast<char>(c.value));
    } else if (c.value == '\n' || c.value == '\r' || c.value == '\t') {
      out += c.value == '\n' ? "\\n" : c.value == '\r' ? "\\r" : "\\t";
    } else if ((c.value & kInvalidByte) != 0 || has_property(c.value, kIsPrintable)) {
      encode_to(out, c.value);
    } else if (c.value < 0x100) {
      append_hex(out, 'x', c.value, 2);
    } else {
      append_hex(out, c.value < 0x10000 ? 'u' : 'U', c.value, c.value < 0x10000 ? 4 : 8);
    }
  }
  out.push_back(quote);
  return out;
}

/// Writes the repr of nested values; depth is bounded by the values themselves.
class ReprWriter {
 public:
  explicit ReprWriter(Budget& budget) : budget_(budget) {}

  void write(const Value& value) {
    budget_.charge(1);
    if (const TrustedText* text = value.as_text()) {
      budget_.charge_bytes(text->size());
      const std::string repr = quoted(text->bytes());
      out_.append_untrusted(text->is_markup() ? "Markup(" + repr + ")" : repr);
    } else if (const List* list = value.as_list()) {
      write_list(*list, value);
    } else if (const Dict* dict = value.as_dict()) {
      write_dict(*dict);
    } else if (value.is_undefined()) {
      out_.append_untrusted("Undefined");
    } else {
      out_.append_untrusted(to_text(budget_, value).bytes());
    }
  }

  TrustedText take() { return std::move(out_); }

 private:
  void write_list(const List& list, const Value& value) {
    const bool is_tuple = list.form == ListForm::kTuple;
    if (!is_tuple && list.form != ListForm::kList)
      fail_runtime("a " + std::string{value.type_name()} + " cannot be written; add |list before");
    out_.append_untrusted(is_tuple ? "(" : "[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append_untrusted(", ");
      write(list.items[i]);
    }
    out_.append_untrusted(is_tuple ? (list.items.size() == 1 ? ",)" : ")") : "]");
  }

  void write_dict(const Dict& dict) {
    out_.append_untrusted("{");
    bool first = true;
    for (const Dict::Entry& entry : dict.entries()) {
      if (!std::exchange(first, false)) out_.append_untrusted(", ");
      write(entry.key);
      out_.append_untrusted(": ");
      write(entry.value);
    }
    out_.append_untrusted("}");
  }

  Budget& budget_;
  TrustedText out_;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text{buffer, static_cast<std::size_t>(written.ptr - buffer)};
  const std::size_t mark = text.find('e');
  int exponent = 0;
  std::from_chars(buffer + mark + (text[mark + 1] == '+' ? 2 : 1), written.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string{text};
  std::string fixed(400, '\0');
  const auto end = std::to_chars(fixed.data(), fixed.data() + fixed.size(), value, std::chars_format::fixed);
  fixed.resize(static_cast<std::size_t>(end.ptr - fixed.data()));
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

TrustedText to_text(Budget& budget, const Value& value) {
  if (const TrustedText* text = value.as_text()) {
    budget.charge_bytes(text->size());
    return *text;
  }
  if (value.is_undefined()) return TrustedText{};
  if (value.is_none()) return TrustedText::untrusted("None");
  if (const bool* held = value.as_bool()) return TrustedText::untrusted(*held ? "True" : "False");
  if (const std::int64_t* held = value.as_integer()) return TrustedText::untrusted(std::to_string(*held));
  if (const BigInteger* held = value.as_big()) {
    budget.charge(1 + held->limbs() * held->limbs() / 16);
    return TrustedText::untrusted(held->text());
  }
  if (const double* held = value.as_number()) return TrustedText::untrusted(float_text(*held));
  if (const Function* function = value.as_function(); function != nullptr && function->is_method) {
    fail(TemplateErrorKind::kUnsupported, "'." + std::string{function->name} + "' is a method; call it, or write ['" +
                                              std::string{function->name} + "'] for the key");
  }
  if (value.as_list() == nullptr && value.as_dict() == nullptr) fail_runtime("a " + std::string{value.type_name()} + " cannot be written");
  return to_repr(budget, value);
}

TrustedText to_repr(Budget& budget, const Value& value) {
  ReprWriter writer{budget};
  writer.write(value);
  return writer.take();
}

TrustedText to_ascii(Budget& budget, const Value& value) {
  const TrustedText repr = to_repr(budget, value);
  std::string out;
  for (std::size_t at = 0; at < repr.size();) {
    const CodePoint c = decode_at(repr.bytes(), at);
    at += c.bytes;
    if (c.value < 0x80) {
      out.push_back(static_cast<char>(c.value));
    } else {
      append_hex(out, c.value < 0x100 ? 'x' : c.value < 0x10000 ? 'u' : 'U', c.value, c.value < 0x100 ? 2 : c.value < 0x10000 ? 4 : 8);
    }
  }
  return TrustedText::untrusted(std::move(out));
}

namespace {

/// The text of a number without blanks around, decimal digits of every script as ASCII; underscores between digits are dropped.
/// nullopt for what cannot be a number.
std::optional<std::string> number_digits(Budget& budget, const TrustedText& text) {
  const TrustedText bare = trimmed(budget, text, Side::kBoth, nullptr);
  std::string out;
  for (std::size_t at = 0; at < bare.size();) {
    const CodePoint c = decode_at(bare.bytes(), at);
    at += c.bytes;
    if (c.value < 0x80) {
      out.push_back(static_cast<char>(c.value));
    } else if (has_property(c.value, kIsDecimal)) {
      out.push_back(static_cast<char>('0' + digit_of(c.value)));
    } else {
      return std::nullopt;
    }
  }
  const auto is_alnum = [&](std::size_t at) { return at < out.size() && std::isalnum(static_cast<unsigned char>(out[at])) != 0; };
  for (std::size_t at = out.find('_'); at != std::string::npos; at = out.find('_', at)) {
    if (at == 0 || !is_alnum(at - 1) || !is_alnum(at + 1)) return std::nullopt;
    out.erase(at, 1);
  }
  return out;
}

std::optional<double> parsed_float(Budget& budget, const TrustedText& text) {
  auto digits = number_digits(budget, text);
  if (!digits) return std::nullopt;
  const bool negative = digits->starts_with('-');
  if (negative || digits->starts_with('+')) digits->erase(0, 1);
  std::transform(digits->begin(), digits->end(), digits->begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  double value = 0.0;
  if (*digits == "inf" || *digits == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (*digits == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    const bool starts_as_number = !digits->empty() && (std::isdigit(static_cast<unsigned char>((*digits)[0])) != 0 || (*digits)[0] == '.');
    const auto result = std::from_chars(digits->data(), digits->data() + digits->size(), value);
    if (!starts_as_number || result.ec == std::errc::invalid_argument || result.ptr != digits->data() + digits->size()) return std::nullopt;
    if (result.ec == std::errc::result_out_of_range) value = std::strtod(digits->c_str(), nullptr);  // infinite or zero
  }
  return negative ? -value : value;
}

/// Python's int(text, base), 0 for the base that the prefix says. nullopt where Python refuses it.
std::optional<BigInteger> parsed_integer(Budget& budget, const TrustedText& text, std::int64_t base) {
  auto digits = number_digits(budget, text);
  if (!digits || (base != 0 && (base < 2 || base > 36))) return std::nullopt;
  const bool negative = digits->starts_with('-');
  if (negative || digits->starts_with('+')) digits->erase(0, 1);
  const char letter = digits->size() > 2 && (*digits)[0] == '0' ? static_cast<char>((*digits)[1] | 0x20) : '\0';
  const std::int64_t prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    digits->erase(0, 2);
    base = prefixed;
  } else if (base == 0) {
    if (digits->size() > 1 && (*digits)[0] == '0' && digits->find_first_not_of('0') != std::string::npos) return std::nullopt;
    base = 10;
  }
  budget.charge(1 + digits->size() * std::min<std::size_t>(digits->size() / 9, kMaxIntegerLimbs) / 16);
  const auto parsed = BigInteger::parse(*digits, static_cast<unsigned>(base));
  return parsed && negative ? -*parsed : parsed;
}

BigInteger whole_part(double value) {
  if (!std::isfinite(value)) fail_runtime("the number " + float_text(value) + " does not fit an integer");
  return BigInteger::truncated(value);
}

Value abs_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  if (const double* number = self.as_number()) return Value::number(std::abs(*number));
  const bool negative = less(budget, self, Value::integer(0));
  return negate(self, negative);
}

Value int_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"default", "base"}};
  const Value fallback = bound[0] != nullptr ? *bound[0] : Value::integer(0);
  if (const TrustedText* text = self.as_text()) {
    if (const auto whole = parsed_integer(budget, *text, bound.integer(1, 10))) return Value::integer(*whole);
    const auto number = parsed_float(budget, *text);
    if (number && std::isinf(*number)) whole_part(*number);
    return number && std::isfinite(*number) ? Value::integer(whole_part(*number)) : fallback;
  }
  if (self.is_undefined()) fail_runtime("int of an undefined value");
  if (const double* number = self.as_number()) return std::isnan(*number) ? fallback : Value::integer(whole_part(*number));
  return is_number(self) ? negate(self, false) : fallback;
}

Value float_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"default"}};
  const Value fallback = bound[0] != nullptr ? *bound[0] : Value::number(0.0);
  if (const TrustedText* text = self.as_text()) {
    const auto number = parsed_float(budget, *text);
    return number ? Value::number(*number) : fallback;
  }
  if (self.is_undefined()) fail_runtime("float of an undefined value");
  return is_number(self) ? Value::number(to_float(budget, self)) : fallback;
}

/// round(whole, -digits): to tens, hundreds ..., half to even.
Value rounded_to_tens(Budget& budget, const Value& self, std::int64_t digits) {
  const Value ten = arithmetic(budget, ArithmeticOp::kPower, Value::integer(10), Value::integer(digits));
  const BigInteger unit = *ten.whole(), whole = *self.whole();
  const auto [down, rest] = BigInteger::divided(whole, unit);
  const auto order = rest + rest <=> unit;
  const bool is_odd = BigInteger::divided(down, BigInteger{2}).second == BigInteger{1};
  const bool up = order > 0 || (order == 0 && is_odd);
  return arithmetic(budget, ArithmeticOp::kMultiply, Value::integer(up ? down + BigInteger{1} : down), ten);
}

/// Half to even on the exact binary value, as Python's round.
double rounded(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < -400) return std::copysign(0.0, value);  // below every float; -digits may not fit
  if (digits <= 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::isfinite(scale) ? std::nearbyint(value / scale) * scale : std::copysign(0.0, value);
  }
  char buffer[700];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, static_cast<int>(digits));
  double result = value;
  std::from_chars(buffer, end.ptr, result);
  return result;
}

Value round_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"precision", "method"}};
  const std::int64_t digits = bound.integer(0, 0);
  const std::string method = bound.text(1) != nullptr ? bound.text(1)->bytes() : "common";
  if (!is_number(self)) fail_runtime("round needs a number, not " + std::string{self.type_name()});
  if (method == "common") {
    if (const double* number = self.as_number()) return Value::number(rounded(*number, digits));
    if (digits >= 0) return negate(self, false);
    return digits < -5000 ? Value::integer(0) : rounded_to_tens(budget, self, -digits);
  }
  if (method != "ceil" && method != "floor") fail_runtime("round knows the methods common, ceil and floor, not " + method);
  const Value scale = arithmetic(budget, ArithmeticOp::kPower, Value::integer(10), Value::integer(digits));
  const Value scaled = arithmetic(budget, ArithmeticOp::kMultiply, self, scale);
  const double* number = scaled.as_number();
  if (number == nullptr) return arithmetic(budget, ArithmeticOp::kDivide, scaled, scale);
  const Value whole = Value::integer(whole_part(method == "ceil" ? std::ceil(*number) : std::floor(*number)));
  return arithmetic(budget, ArithmeticOp::kDivide, whole, scale);
}

Value is_integer(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::boolean(std::isfinite(*self.as_number()) && std::trunc(*self.as_number()) == *self.as_number());
}

Value bit_length(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::integer(static_cast<std::int64_t>(self.whole()->bits()));
}

constexpr NamedFunction kFloatMethods[] = {{"is_integer", is_integer}};
constexpr NamedFunction kIntegerMethods[] = {{"bit_length", bit_length}};
constexpr NamedFunction kFilters[] = {{"abs", abs_filter}, {"float", float_filter}, {"int", int_filter}, {"round", round_filter}};

}  // namespace

double to_float(Budget& budget, const Value& value) {
  if (const double* number = value.as_number()) return *number;
  if (const auto whole = value.whole()) return *arithmetic(budget, ArithmeticOp::kDivide, value, Value::integer(1)).as_number();
  const auto parsed = value.as_text() != nullptr ? parsed_float(budget, *value.as_text()) : std::nullopt;
  if (!parsed) fail_runtime("a " + std::string{value.type_name()} + " is no number");
  return *parsed;
}

std::span<const NamedFunction> number_filters() { return kFilters; }

std::span<const NamedFunction> number_methods(const Value& number) {
  if (!is_number(number)) return {};
  return number.as_number() != nullptr ? std::span<const NamedFunction>{kFloatMethods} : std::span<const NamedFunction>{kIntegerMethods};
}

}  // namespace kvpage::engine::chat
