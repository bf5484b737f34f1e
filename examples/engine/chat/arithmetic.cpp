/// \file Arithmetic of template values: Python's integers, floats, strings and lists.
#include "engine/chat/operators.hpp"
#include "engine/chat/string_format.hpp"
#include "engine/chat/template_error.hpp"
#include "engine/chat/text_ops.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace kvpage::engine::chat {
namespace {

constexpr std::array<std::string_view, 7> kSymbols{"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void fail_operands(ArithmeticOp op, const Value& a, const Value& b) {
  const Undefined* missing = a.as_undefined() != nullptr ? a.as_undefined() : b.as_undefined();
  if (missing != nullptr && !missing->name.empty()) fail_runtime("'" + std::string{missing->name} + "' is undefined");
  fail_runtime("no operation " + std::string{a.type_name()} + " " + std::string{kSymbols[static_cast<std::size_t>(op)]} + " " +
               std::string{b.type_name()});
}

double float_of(const BigInteger& whole) {
  const double value = whole.nearest();
  if (!std::isfinite(value)) fail_runtime("an integer is too large for a float");
  return value;
}

std::optional<double> as_float(const Value& value) {
  if (const double* held = value.as_number()) return *held;
  if (const std::int64_t* held = value.as_integer()) return static_cast<double>(*held);
  if (const auto whole = value.whole()) return float_of(*whole);
  return std::nullopt;
}

BigInteger whole_power(Budget& budget, BigInteger base, std::int64_t exponent) {
  const std::size_t bits = base.bits();
  if (bits > 1 && static_cast<std::uint64_t>(exponent) > kMaxIntegerLimbs * 32 / (bits - 1)) {
    fail(TemplateErrorKind::kLimit, "makes an integer of more than " + std::to_string(kMaxIntegerLimbs * 32) + " bits");
  }
  BigInteger result{1};
  for (; exponent > 0; exponent >>= 1) {
    budget.charge(1 + base.limbs() * (base.limbs() + result.limbs()) / 16);
    if ((exponent & 1) != 0) result = result * base;
    if (exponent > 1) base = base * base;
  }
  return result;
}

Value divided(Budget& budget, ArithmeticOp op, const BigInteger& a, const BigInteger& b) {
  if (b.is_zero()) fail_runtime("division by zero");
  if (a.limbs() > 2 || b.limbs() > 1) budget.charge(1 + (a.bits() + 64) * (b.limbs() + 2) / 64);
  if (op == ArithmeticOp::kDivide) {
    const double quotient = true_quotient(a, b);
    if (!std::isfinite(quotient)) fail_runtime("an integer is too large for a float");
    return Value::number(quotient);
  }
  auto [down, rest] = BigInteger::divided(a, b);
  return Value::integer(op == ArithmeticOp::kModulo ? rest : down);
}

Value big_arithmetic(Budget& budget, ArithmeticOp op, const BigInteger& a, const BigInteger& b) {
  switch (op) {
    case ArithmeticOp::kAdd: return Value::integer(a + b);
    case ArithmeticOp::kSubtract: return Value::integer(a - b);
    case ArithmeticOp::kMultiply: budget.charge(1 + a.limbs() * b.limbs() / 16); return Value::integer(a * b);
    case ArithmeticOp::kPower: {
      if (b.is_negative()) {
        if (a.is_zero()) fail_runtime("division by zero");
        return Value::number(std::pow(float_of(a), float_of(b)));
      }
      const auto exponent = a.bits() <= 1 ? std::optional<std::int64_t>{b.text().back() % 2 == 0 ? 2 : 1} : b.narrow();
      if (b.is_zero()) return Value::integer(1);
      return Value::integer(whole_power(budget, a, exponent.value_or(std::numeric_limits<std::int64_t>::max())));
    }
    default: return divided(budget, op, a, b);
  }
}

/// The results that fit; nullopt leaves the others to big_arithmetic.
std::optional<std::int64_t> small_arithmetic(ArithmeticOp op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case ArithmeticOp::kAdd: return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional{result};
    case ArithmeticOp::kSubtract: return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional{result};
    case ArithmeticOp::kMultiply: return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional{result};
    case ArithmeticOp::kFloorDivide:
      if (b == 0 || b == -1) return std::nullopt;
      return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
    case ArithmeticOp::kModulo: {
      if (b == 0 || b == -1) return std::nullopt;
      const std::int64_t rest = a % b;
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    default: return std::nullopt;
  }
}

/// Python's // and % of floats: the rest has the sign of the divisor, the quotient is the nearest whole number to what is left.
Value float_division(bool wants_rest, double a, double b) {
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest == 0.0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0.0) != (b < 0.0)) {
    rest += b, quotient -= 1.0;
  }
  if (wants_rest) return Value::number(rest);
  if (quotient == 0.0) return Value::number(std::copysign(0.0, a / b));
  const double down = std::floor(quotient);
  return Value::number(quotient - down > 0.5 ? down + 1.0 : down);
}

Value float_arithmetic(ArithmeticOp op, double a, double b) {
  const bool divides = op == ArithmeticOp::kDivide || op == ArithmeticOp::kFloorDivide || op == ArithmeticOp::kModulo;
  if (divides && b == 0.0) fail_runtime("division by zero");
  switch (op) {
    case ArithmeticOp::kAdd: return Value::number(a + b);
    case ArithmeticOp::kSubtract: return Value::number(a - b);
    case ArithmeticOp::kMultiply: return Value::number(a * b);
    case ArithmeticOp::kDivide: return Value::number(a / b);
    case ArithmeticOp::kFloorDivide:
    case ArithmeticOp::kModulo: return float_division(op == ArithmeticOp::kModulo, a, b);
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
  const bool markup = a.is_markup() || b.is_markup();
  TrustedText text = markup ? escaped(budget, a) : a;
  text.append(markup ? escaped(budget, b) : b);
  text.set_markup(markup);
  return Value::text(std::move(text));
}

Value joined(Budget& budget, const List& a, const List& b) {
  budget.charge(1 + a.items.size() + b.items.size());
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return Value::list(std::move(items), a.form);
}

Value repeated(Budget& budget, const TrustedText& text, std::int64_t count) {
  if (text.empty() || count <= 0) return Value::text(TrustedText{}.set_markup(text.is_markup()));
  if (static_cast<std::uint64_t>(count) > kMaxOutputBytes / text.size()) {
    fail(TemplateErrorKind::kLimit, "repeats a string beyond " + std::to_string(kMaxOutputBytes) + " bytes");
  }
  budget.charge_bytes((text.size() + 16) * static_cast<std::size_t>(count));
  TrustedText result;
  for (std::int64_t i = 0; i < count; ++i) result.append(text);
  result.set_markup(text.is_markup());
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
  if (a.as_integer() != nullptr && b.as_integer() != nullptr) {
    if (const auto result = small_arithmetic(op, *a.as_integer(), *b.as_integer())) return Value::integer(*result);
  }
  if (op == ArithmeticOp::kModulo && a.as_text() != nullptr) return printf_format(budget, *a.as_text(), b);
  const auto whole_a = a.whole(), whole_b = b.whole();
  if (whole_a && whole_b) return big_arithmetic(budget, op, *whole_a, *whole_b);
  if (is_number(a) && is_number(b)) return float_arithmetic(op, *as_float(a), *as_float(b));
  if (op == ArithmeticOp::kAdd) {
    if (a.as_text() != nullptr && b.as_text() != nullptr) return joined(budget, *a.as_text(), *b.as_text());
    if (prints(a.as_list()) && prints(b.as_list()) && a.as_list()->form == b.as_list()->form)
      return joined(budget, *a.as_list(), *b.as_list());
  }
  if (op == ArithmeticOp::kMultiply && (whole_a || whole_b)) {
    const Value& sequence = whole_a ? b : a;
    const auto whole = (whole_a ? *whole_a : *whole_b).narrow();
    if (!whole) fail(TemplateErrorKind::kLimit, "repeats a value too often");
    if (sequence.as_text() != nullptr) return repeated(budget, *sequence.as_text(), *whole);
    if (prints(sequence.as_list())) return repeated(budget, *sequence.as_list(), *whole);
  }
  fail_operands(op, a, b);
}

Value negate(const Value& operand, bool negative) {
  if (const auto whole = operand.whole()) return Value::integer(negative ? -*whole : *whole);
  if (const double* number = operand.as_number()) return Value::number(negative ? -*number : *number);
  fail_runtime("a sign needs a number, not " + std::string{operand.type_name()});
}

}  // namespace kvpage::engine::chat
