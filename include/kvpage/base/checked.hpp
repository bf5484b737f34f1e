/// \file Arithmetic that cannot wrap, and Untrusted<T>: a number read from input, unusable until it is checked.
#pragma once

#include <kvpage/base/expected.hpp>

#include <concepts>
#include <limits>

KVPAGE_BEGIN_NAMESPACE

/// The result does not fit the type, or the value lies outside the asked range.
struct OutOfRange {};

/// a + b, or OutOfRange.
template <std::integral T>
[[nodiscard]] constexpr Expected<T, OutOfRange> checked_add(T a, T b) noexcept {
  T result{};
  if (__builtin_add_overflow(a, b, &result)) return Unexpected{OutOfRange{}};
  return result;
}

/// a * b, or OutOfRange.
template <std::integral T>
[[nodiscard]] constexpr Expected<T, OutOfRange> checked_mul(T a, T b) noexcept {
  T result{};
  if (__builtin_mul_overflow(a, b, &result)) return Unexpected{OutOfRange{}};
  return result;
}

/// The value as a `To`, or OutOfRange if it would change.
template <std::integral To, std::integral From>
[[nodiscard]] constexpr Expected<To, OutOfRange> checked_cast(From value) noexcept {
  To result{};
  if (__builtin_add_overflow(value, From{0}, &result)) return Unexpected{OutOfRange{}};
  return result;
}

/// A number that came from a file or the network. No operators, no conversion: only a range check releases it.
template <std::integral T>
class Untrusted {
 public:
  constexpr explicit Untrusted(T value) noexcept : value_(value) {}

  /// The number, if lo <= number <= hi.
  [[nodiscard]] constexpr Expected<T, OutOfRange> in_range(T lo, T hi) const noexcept {
    if (value_ < lo || value_ > hi) return Unexpected{OutOfRange{}};
    return value_;
  }

  /// The number for an error text; never for arithmetic.
  [[nodiscard]] constexpr T for_message() const noexcept { return value_; }

 private:
  T value_;
};

/// Product of an untrusted number and a trusted one, still untrusted; OutOfRange when it wraps.
template <std::integral T>
[[nodiscard]] constexpr Expected<Untrusted<T>, OutOfRange> checked_mul(Untrusted<T> a, T b) noexcept {
  const auto product = checked_mul(a.for_message(), b);
  if (!product) return Unexpected{OutOfRange{}};
  return Untrusted<T>{*product};
}

KVPAGE_END_NAMESPACE
