/// \file Arithmetic of template values: Python's integers of any size, floats, strings and lists.
#include "engine/chat/functions.hpp"
#include "engine/chat/text.hpp"
#include "engine/chat/value.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace kvpage::engine::chat {
namespace {

constexpr unsigned kLimbBits = 32;

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

/// The nearest double of mantissa * 2^exponent, where `rest` says that something was cut off below the mantissa.
double scaled(std::uint64_t mantissa, bool rest, std::int64_t exponent) {
  // The last bit stands for all that was cut off; 64 bits leave room to round to even once.
  if (rest) mantissa |= 1;
  if (exponent > 2000) return std::numeric_limits<double>::infinity();
  const int surplus = std::max(0, 64 - std::countl_zero(mantissa) - 53);
  const std::uint64_t half = surplus > 0 ? std::uint64_t{1} << (surplus - 1) : 0;
  std::uint64_t kept = surplus > 0 ? mantissa >> surplus : mantissa;
  const std::uint64_t cut = surplus > 0 ? mantissa & ((half << 1) - 1) : 0;
  if (surplus > 0 && (cut > half || (cut == half && (kept & 1) != 0))) ++kept;
  return std::ldexp(static_cast<double>(kept), static_cast<int>(exponent) + surplus);
}

}  // namespace

BigInteger::BigInteger(Limbs limbs, bool negative) : limbs_(std::move(limbs)) {
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
  negative_ = negative && !limbs_.empty();
}

BigInteger::BigInteger(std::int64_t value) : negative_(value < 0) {
  auto size = static_cast<std::uint64_t>(value);
  if (negative_) size = 0 - size;
  for (; size != 0; size >>= kLimbBits) limbs_.push_back(static_cast<std::uint32_t>(size));
}

BigInteger BigInteger::truncated(double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::trunc(std::abs(value)), &exponent);
  const auto mantissa = static_cast<std::int64_t>(std::ldexp(fraction, 53));
  const BigInteger whole =
      exponent >= 53 ? BigInteger{mantissa}.shifted_left(static_cast<std::size_t>(exponent - 53)) : BigInteger{mantissa >> (53 - exponent)};
  return value < 0 ? -whole : whole;
}

std::optional<BigInteger> BigInteger::parse(std::string_view digits, unsigned base) {
  Limbs limbs;
  for (const char c : digits) {
    const int digit = digit_value(c);
    if (digit >= static_cast<int>(base)) return std::nullopt;
    std::uint64_t carry = static_cast<std::uint64_t>(digit);
    for (std::uint32_t& limb : limbs) {
      carry += std::uint64_t{limb} * base;
      limb = static_cast<std::uint32_t>(carry);
      carry >>= kLimbBits;
    }
    if (carry != 0) limbs.push_back(static_cast<std::uint32_t>(carry));
    if (limbs.size() > kMaxIntegerLimbs) break;  // too large for a value
  }
  if (digits.empty()) return std::nullopt;
  return BigInteger{std::move(limbs), false};
}

std::size_t BigInteger::bits() const noexcept {
  return limbs_.empty() ? 0 : limbs_.size() * kLimbBits - static_cast<std::size_t>(std::countl_zero(limbs_.back()));
}

std::optional<std::int64_t> BigInteger::narrow() const noexcept {
  if (limbs_.size() > 2) return std::nullopt;
  std::uint64_t size = limbs_.empty() ? 0 : limbs_[0];
  if (limbs_.size() == 2) size |= std::uint64_t{limbs_[1]} << kLimbBits;
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) + (negative_ ? 1 : 0);
  if (size > most) return std::nullopt;
  return static_cast<std::int64_t>(negative_ ? 0 - size : size);
}

double BigInteger::nearest() const {
  const std::size_t count = bits(), cut = count > 64 ? count - 64 : 0;
  const auto bit = [&](std::size_t at) { return limbs_[at / kLimbBits] >> (at % kLimbBits) & 1u; };
  std::uint64_t mantissa = 0;
  for (std::size_t at = count; at-- > cut;) mantissa = mantissa << 1 | bit(at);
  bool rest = false;
  for (std::size_t at = 0; at < cut && !rest; ++at) rest = bit(at) != 0;
  const double size = scaled(mantissa, rest, static_cast<std::int64_t>(cut));
  return negative_ ? -size : size;
}

std::uint32_t BigInteger::divide_small(Limbs& limbs, std::uint32_t divisor) {
  std::uint64_t rest = 0;
  for (auto limb = limbs.rbegin(); limb != limbs.rend(); ++limb) {
    rest = rest << kLimbBits | *limb;
    *limb = static_cast<std::uint32_t>(rest / divisor);
    rest %= divisor;
  }
  while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
  return static_cast<std::uint32_t>(rest);
}

std::string BigInteger::text(unsigned base) const {
  if (is_zero()) return "0";
  std::uint32_t chunk = base;
  int chunk_digits = 1;
  while (std::uint64_t{chunk} * base <= std::numeric_limits<std::uint32_t>::max()) chunk *= base, ++chunk_digits;
  std::string out;
  for (Limbs rest = limbs_; !rest.empty();) {
    std::uint32_t digits = divide_small(rest, chunk);
    for (int i = 0; i < chunk_digits && (digits != 0 || !rest.empty()); ++i, digits /= base) {
      out.push_back("0123456789abcdefghijklmnopqrstuvwxyz"[digits % base]);
    }
  }
  if (negative_) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

std::strong_ordering BigInteger::compare_size(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  return std::lexicographical_compare_three_way(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

std::strong_ordering operator<=>(const BigInteger& a, const BigInteger& b) {
  if (a.negative_ != b.negative_) return a.negative_ ? std::strong_ordering::less : std::strong_ordering::greater;
  return a.negative_ ? BigInteger::compare_size(b.limbs_, a.limbs_) : BigInteger::compare_size(a.limbs_, b.limbs_);
}

BigInteger::Limbs BigInteger::sum(const Limbs& a, const Limbs& b) {
  Limbs out;
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()) || carry != 0; ++i) {
    carry += (i < a.size() ? a[i] : 0ull) + (i < b.size() ? b[i] : 0ull);
    out.push_back(static_cast<std::uint32_t>(carry));
    carry >>= kLimbBits;
  }
  return out;
}

/// Requires: a is not smaller than b.
BigInteger::Limbs BigInteger::difference(const Limbs& a, const Limbs& b) {
  Limbs out;
  std::int64_t borrow = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    borrow += static_cast<std::int64_t>(a[i]) - (i < b.size() ? static_cast<std::int64_t>(b[i]) : 0);
    out.push_back(static_cast<std::uint32_t>(borrow));
    borrow >>= kLimbBits;
  }
  return out;
}

BigInteger BigInteger::operator-() const { return {limbs_, !negative_}; }

BigInteger operator+(const BigInteger& a, const BigInteger& b) {
  if (a.negative_ == b.negative_) return {BigInteger::sum(a.limbs_, b.limbs_), a.negative_};
  if (BigInteger::compare_size(a.limbs_, b.limbs_) < 0) return {BigInteger::difference(b.limbs_, a.limbs_), b.negative_};
  return {BigInteger::difference(a.limbs_, b.limbs_), a.negative_};
}

BigInteger operator*(const BigInteger& a, const BigInteger& b) {
  BigInteger::Limbs out(a.limbs_.size() + b.limbs_.size(), 0);
  for (std::size_t i = 0; i < a.limbs_.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < b.limbs_.size() || carry != 0; ++j) {
      carry += out[i + j] + std::uint64_t{a.limbs_[i]} * (j < b.limbs_.size() ? b.limbs_[j] : 0);
      out[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= kLimbBits;
    }
  }
  return {std::move(out), a.negative_ != b.negative_};
}

BigInteger BigInteger::shifted_left(std::size_t bits) const {
  Limbs out(bits / kLimbBits, 0);
  std::uint64_t carry = 0;
  for (const std::uint32_t limb : limbs_) {
    carry |= std::uint64_t{limb} << (bits % kLimbBits);
    out.push_back(static_cast<std::uint32_t>(carry));
    carry >>= kLimbBits;
  }
  out.push_back(static_cast<std::uint32_t>(carry));
  return {std::move(out), negative_};
}

std::pair<BigInteger, BigInteger> BigInteger::divided(const BigInteger& a, const BigInteger& b) {
  Limbs quotient(a.limbs_.size(), 0), rest;
  if (b.limbs_.size() == 1) {
    quotient = a.limbs_;
    rest = {divide_small(quotient, b.limbs_[0])};
  } else {  // bit by bit: divisors beyond 32 bits are rare, and both sides are small
    for (std::size_t bit = a.bits(); bit-- > 0;) {
      rest = BigInteger{std::move(rest), false}.shifted_left(1).limbs_;
      if ((a.limbs_[bit / kLimbBits] >> (bit % kLimbBits) & 1u) != 0) rest = sum(rest, {1});
      if (compare_size(rest, b.limbs_) < 0) continue;
      rest = BigInteger{difference(rest, b.limbs_), false}.limbs_;
      quotient[bit / kLimbBits] |= 1u << (bit % kLimbBits);
    }
  }
  BigInteger down{std::move(quotient), a.negative_ != b.negative_}, left{std::move(rest), a.negative_};
  if (!left.is_zero() && a.negative_ != b.negative_) down = down - BigInteger{1}, left = left + b;
  return {std::move(down), std::move(left)};
}

double true_quotient(const BigInteger& a, const BigInteger& b) {
  if (a.is_zero()) return 0.0;
  const BigInteger top = a.is_negative() ? -a : a, bottom = b.is_negative() ? -b : b;
  // Scale so that the quotient has 62 or 63 bits: more than a double keeps, and still one word.
  const auto shift = 62 - (static_cast<std::int64_t>(top.bits()) - static_cast<std::int64_t>(bottom.bits()));
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(shift, 0));
  const auto drop = static_cast<std::size_t>(std::max<std::int64_t>(-shift, 0));
  const auto [quotient, rest] = BigInteger::divided(top.shifted_left(room), bottom.shifted_left(drop));
  const double size = scaled(static_cast<std::uint64_t>(*quotient.narrow()), !rest.is_zero(), -shift);
  return a.is_negative() != b.is_negative() ? -size : size;
}

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
