/// \file Filters that make or change numbers: abs, float, int, round.
#include "engine/chat/function_lists.hpp"

#include "engine/chat/format_value.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/text_ops.hpp"

#include <charconv>
#include <cmath>

namespace kvpage::engine::chat {
namespace {

/// Python's int(text, base) and float(text): blanks around, one sign, digits; no underscores.
std::optional<std::string> number_digits(Budget& budget, const TrustedText& text) {
  const std::string digits = trimmed(budget, text, Side::kBoth, nullptr).bytes();
  if (digits.starts_with("+-") || digits.starts_with("--")) return std::nullopt;
  return digits.starts_with('+') ? digits.substr(1) : digits;
}

std::optional<double> parsed_float(Budget& budget, const TrustedText& text) {
  const auto digits = number_digits(budget, text);
  double value = 0.0;
  if (!digits || digits->empty()) return std::nullopt;
  const auto result = std::from_chars(digits->data(), digits->data() + digits->size(), value);
  if (result.ec == std::errc::result_out_of_range) fail_runtime("the number " + *digits + " is out of range");
  return result.ec == std::errc{} && result.ptr == digits->data() + digits->size() ? std::optional{value} : std::nullopt;
}

std::optional<std::int64_t> parsed_integer(Budget& budget, const TrustedText& text, int base) {
  const auto digits = number_digits(budget, text);
  std::int64_t value = 0;
  if (!digits || digits->empty()) return std::nullopt;
  const auto result = std::from_chars(digits->data(), digits->data() + digits->size(), value, base);
  if (result.ec == std::errc::result_out_of_range) fail_runtime("the integer " + *digits + " exceeds 64 bits");
  return result.ec == std::errc{} && result.ptr == digits->data() + digits->size() ? std::optional{value} : std::nullopt;
}

std::int64_t whole_part(double value) {
  if (!(std::abs(value) < 9.2e18)) fail_runtime("the number " + float_text(value) + " does not fit an integer");
  return static_cast<std::int64_t>(value);
}

Value abs_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  const bool negative = less(budget, self, Value::integer(0));
  return negate(self, negative);
}

Value int_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"default", "base"}};
  const Value fallback = bound[0] != nullptr ? *bound[0] : Value::integer(0);
  const std::int64_t base = bound.integer(1, 10);
  if (base < 2 || base > 36) fail_runtime("int needs a base from 2 to 36, not " + std::to_string(base));
  if (const TrustedText* text = self.as_text()) {
    if (const auto whole = parsed_integer(budget, *text, static_cast<int>(base))) return Value::integer(*whole);
    const auto number = parsed_float(budget, *text);
    return number ? Value::integer(whole_part(*number)) : fallback;
  }
  if (self.is_undefined()) fail_runtime("int of an undefined value");
  if (const double* number = self.as_number()) return std::isnan(*number) ? fallback : Value::integer(whole_part(*number));
  if (self.as_integer() != nullptr || self.as_bool() != nullptr) return negate(self, false);
  return fallback;
}

Value float_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"default"}};
  const Value fallback = bound[0] != nullptr ? *bound[0] : Value::number(0.0);
  if (const TrustedText* text = self.as_text()) {
    const auto number = parsed_float(budget, *text);
    return number ? Value::number(*number) : fallback;
  }
  if (self.is_undefined()) fail_runtime("float of an undefined value");
  if (self.as_number() != nullptr) return self;
  if (const std::int64_t* whole = self.as_integer()) return Value::number(static_cast<double>(*whole));
  if (const bool* flag = self.as_bool()) return Value::number(*flag ? 1.0 : 0.0);
  return fallback;
}

/// Half to even on the exact binary value, as Python's round.
double rounded(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits <= 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::isfinite(scale) ? std::nearbyint(value / scale) * scale : 0.0;
  }
  char buffer[700];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, static_cast<int>(digits));
  double result = value;
  std::from_chars(buffer, end.ptr, result);
  return result;
}

Value round_filter(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"precision", "method"}};
  const std::int64_t digits = bound.integer(0, 0);
  const std::string method = bound.text(1) != nullptr ? bound.text(1)->bytes() : "common";
  const bool whole = self.as_integer() != nullptr || self.as_bool() != nullptr;
  if (!whole && self.as_number() == nullptr) fail_runtime("round needs a number, not " + std::string{self.type_name()});
  if (whole && digits >= 0 && method == "common") return negate(self, false);
  const double value = whole ? static_cast<double>(*negate(self, false).as_integer()) : *self.as_number();
  if (method == "common") {
    if (whole) fail(TemplateErrorKind::kUnsupported, "rounding an integer to tens is not supported");
    return Value::number(rounded(value, digits));
  }
  if (method != "ceil" && method != "floor") fail_runtime("round knows the methods common, ceil and floor, not " + method);
  const double scale = std::pow(10.0, static_cast<double>(digits));
  return Value::number((method == "ceil" ? std::ceil(value * scale) : std::floor(value * scale)) / scale);
}

constexpr NamedFunction kFilters[] = {{"abs", abs_filter}, {"float", float_filter}, {"int", int_filter}, {"round", round_filter}};

}  // namespace

std::span<const NamedFunction> number_filters() { return kFilters; }

}  // namespace kvpage::engine::chat
