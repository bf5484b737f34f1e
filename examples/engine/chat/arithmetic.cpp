/// \file Arithmetic of template values: Python's integers (within 64 bits), floats, strings and lists.
#include "engine/chat/operators.hpp"
#include "engine/chat/template_error.hpp"

#include <kvpage/base/checked.hpp>

#include <array>
#include <cmath>

namespace kvpage::engine::chat {
namespace {

constexpr std::array<std::string_view, 7> kSymbols{"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void fail_operands(ArithmeticOp op, const Value& a, const Value& b) {
  const Undefined* missing = a.as_undefined() != nullptr ? a.as_undefined() : b.as_undefined();
  if (missing != nullptr && !missing->name.empty()) fail_runtime("'" + std::string{missing->name} + "' is undefined");
  fail_runtime("no operation " + std::string{a.type_name()} + " " + std::string{kSymbols[static_cast<std::size_t>(op)]} + " " +
               std::string{b.type_name()});
}

std::optional<std::int64_t> as_whole(const Value& value) {
  if (const bool* held = value.as_bool()) return *held ? 1 : 0;
  if (const std::int64_t* held = value.as_integer()) return *held;
  return std::nullopt;
}

std::optional<double> as_float(const Value& value) {
  if (const auto whole = as_whole(value)) return static_cast<double>(*whole);
  if (const double* held = value.as_number()) return *held;
  return std::nullopt;
}

std::int64_t in_64_bits(Expected<std::int64_t, OutOfRange> result) {
  if (!result) fail_runtime("an integer exceeds 64 bits");
  return *result;
}

std::int64_t whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = in_64_bits(checked_mul(result, base));
    if (exponent > 1) base = in_64_bits(checked_mul(base, base));
  }
  return result;
}

Value whole_arithmetic(ArithmeticOp op, std::int64_t a, std::int64_t b) {
  const bool divides = op == ArithmeticOp::kDivide || op == ArithmeticOp::kFloorDivide || op == ArithmeticOp::kModulo;
  if (divides && b == 0) fail_runtime("division by zero");
  switch (op) {
    case ArithmeticOp::kAdd: return Value::integer(in_64_bits(checked_add(a, b)));
    case ArithmeticOp::kSubtract: {
      std::int64_t result = 0;
      if (__builtin_sub_overflow(a, b, &result)) fail_runtime("an integer exceeds 64 bits");
      return Value::integer(result);
    }
    case ArithmeticOp::kMultiply: return Value::integer(in_64_bits(checked_mul(a, b)));
    case ArithmeticOp::kDivide: return Value::number(static_cast<double>(a) / static_cast<double>(b));
    case ArithmeticOp::kFloorDivide:
      if (b == -1) return whole_arithmetic(ArithmeticOp::kSubtract, 0, a);
      return Value::integer(a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0));
    case ArithmeticOp::kModulo: {
      const std::int64_t rest = b == -1 ? 0 : a % b;
      return Value::integer(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    }
    case ArithmeticOp::kPower:
      if (b >= 0) return Value::integer(whole_power(a, b));
      if (a == 0) fail_runtime("division by zero");
      return Value::number(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  return Value{};
}

Value float_arithmetic(ArithmeticOp op, double a, double b) {
  const bool divides = op == ArithmeticOp::kDivide || op == ArithmeticOp::kFloorDivide || op == ArithmeticOp::kModulo;
  if (divides && b == 0.0) fail_runtime("division by zero");
  switch (op) {
    case ArithmeticOp::kAdd: return Value::number(a + b);
    case ArithmeticOp::kSubtract: return Value::number(a - b);
    case ArithmeticOp::kMultiply: return Value::number(a * b);
    case ArithmeticOp::kDivide: return Value::number(a / b);
    case ArithmeticOp::kFloorDivide: return Value::number(std::floor(a / b));
    case ArithmeticOp::kModulo: {
      const double rest = std::fmod(a, b);
      return Value::number(rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest);
    }
    case ArithmeticOp::kPower: {
      const double result = std::pow(a, b);
      if (!std::isfinite(result) && std::isfinite(a) && std::isfinite(b)) fail_runtime("a power is no finite real number");
      return Value::number(result);
    }
  }
  return Value{};
}

Value joined(Budget& budget, const TrustedText& a, const TrustedText& b) {
  budget.charge_bytes(a.size() + b.size());
  TrustedText text = a;
  text.append(b);
  return Value::text(std::move(text));
}

Value joined(Budget& budget, const List& a, const List& b) {
  budget.charge(1 + a.items.size() + b.items.size());
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return Value::list(std::move(items), a.form);
}

Value repeated(Budget& budget, const TrustedText& text, std::int64_t count) {
  if (text.empty() || count <= 0) return Value::text(TrustedText{});
  if (static_cast<std::uint64_t>(count) > kMaxOutputBytes / text.size()) {
    fail(TemplateErrorKind::kLimit, "repeats a string beyond " + std::to_string(kMaxOutputBytes) + " bytes");
  }
  budget.charge_bytes(text.size() * static_cast<std::size_t>(count));
  TrustedText result;
  for (std::int64_t i = 0; i < count; ++i) result.append(text);
  return Value::text(std::move(result));
}

Value repeated(Budget& budget, const List& list, std::int64_t count) {
  std::vector<Value> items;
  for (std::int64_t i = 0; i < count && !list.items.empty(); ++i) {
    budget.charge(1 + list.items.size());
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return Value::list(std::move(items), list.form);
}

bool prints(const List* list) { return list != nullptr && list->form <= ListForm::kTuple; }

}  // namespace

Value arithmetic(Budget& budget, ArithmeticOp op, const Value& a, const Value& b) {
  const auto whole_a = as_whole(a), whole_b = as_whole(b);
  if (whole_a && whole_b) return whole_arithmetic(op, *whole_a, *whole_b);
  const auto float_a = as_float(a), float_b = as_float(b);
  if (float_a && float_b) return float_arithmetic(op, *float_a, *float_b);
  if (op == ArithmeticOp::kAdd) {
    if (a.as_text() != nullptr && b.as_text() != nullptr) return joined(budget, *a.as_text(), *b.as_text());
    if (prints(a.as_list()) && prints(b.as_list()) && a.as_list()->form == b.as_list()->form)
      return joined(budget, *a.as_list(), *b.as_list());
  }
  if (op == ArithmeticOp::kMultiply && (whole_a || whole_b)) {
    const Value& sequence = whole_a ? b : a;
    const std::int64_t count = whole_a ? *whole_a : *whole_b;
    if (sequence.as_text() != nullptr) return repeated(budget, *sequence.as_text(), count);
    if (prints(sequence.as_list())) return repeated(budget, *sequence.as_list(), count);
  }
  if (op == ArithmeticOp::kModulo && a.as_text() != nullptr)
    fail(TemplateErrorKind::kUnsupported, "formatting a string with % is not supported");
  fail_operands(op, a, b);
}

Value negate(const Value& operand, bool negative) {
  if (const auto whole = as_whole(operand)) return negative ? whole_arithmetic(ArithmeticOp::kSubtract, 0, *whole) : Value::integer(*whole);
  if (const double* number = operand.as_number()) return Value::number(negative ? -*number : *number);
  fail_runtime("a sign needs a number, not " + std::string{operand.type_name()});
}

}  // namespace kvpage::engine::chat
