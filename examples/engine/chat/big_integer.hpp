/// \file BigInteger: Python's int beyond 64 bits.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpage::engine::chat {

/// Values hold at most kMaxIntegerLimbs of it, which bounds what any operation here costs.
class BigInteger {
 public:
  BigInteger() = default;  // 0
  BigInteger(std::int64_t value);  // NOLINT: every 64-bit integer is one
  /// The integer part. Requires: finite.
  static BigInteger truncated(double value);
  /// Digits of `base` alone, no sign; nullopt when another character occurs or there is none.
  static std::optional<BigInteger> parse(std::string_view digits, unsigned base);

  bool is_zero() const noexcept { return limbs_.empty(); }
  bool is_negative() const noexcept { return negative_; }
  std::size_t limbs() const noexcept { return limbs_.size(); }
  std::size_t bits() const noexcept;
  std::optional<std::int64_t> narrow() const noexcept;
  /// The nearest double, ties to even; infinite when it is too large.
  double nearest() const;
  /// Digits with a `-` in front of negative ones. Requires: 2 <= base <= 36.
  std::string text(unsigned base = 10) const;

  BigInteger operator-() const;
  friend BigInteger operator+(const BigInteger& a, const BigInteger& b);
  friend BigInteger operator-(const BigInteger& a, const BigInteger& b) { return a + -b; }
  friend BigInteger operator*(const BigInteger& a, const BigInteger& b);
  BigInteger shifted_left(std::size_t bits) const;
  /// Quotient rounded down and the rest, which has the sign of the divisor. Requires: b is not zero.
  static std::pair<BigInteger, BigInteger> divided(const BigInteger& a, const BigInteger& b);
  friend bool operator==(const BigInteger&, const BigInteger&) = default;
  friend std::strong_ordering operator<=>(const BigInteger& a, const BigInteger& b);

 private:
  using Limbs = std::vector<std::uint32_t>;  // lowest first, no zero on top
  BigInteger(Limbs limbs, bool negative);
  static std::strong_ordering compare_size(const Limbs& a, const Limbs& b);
  static Limbs sum(const Limbs& a, const Limbs& b);
  static Limbs difference(const Limbs& a, const Limbs& b);
  static std::uint32_t divide_small(Limbs& limbs, std::uint32_t divisor);

  Limbs limbs_;
  bool negative_ = false;
};

/// a / b as Python computes it: the exact quotient, rounded once. Requires: b is not zero. Infinite when it is too large.
double true_quotient(const BigInteger& a, const BigInteger& b);

}  // namespace kvpage::engine::chat
