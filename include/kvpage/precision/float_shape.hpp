/// \file FloatShape: of which bits a float consists, and what its largest exponent means.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// What the codes with all exponent bits set mean, and where a value beyond the range goes.
enum class FloatRange : std::uint8_t {
  kInfinity,        ///< IEEE: infinity and NaN; overflow rounds to infinity
  kSaturate,        ///< infinity and NaN exist, but overflow and infinity become the largest finite value
  kSaturateOneNan,  ///< "fn": only all ones is NaN, the rest are numbers; overflow and infinity become the largest finite value
};

/// A sign, `exponent_bits` with the IEEE bias 2^(exponent_bits - 1) - 1, `mantissa_bits` with gradual underflow. Codes that are no
/// floats have the empty shape.
struct FloatShape {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  FloatRange range = FloatRange::kInfinity;

  constexpr int bits() const noexcept { return 1 + exponent_bits + mantissa_bits; }
  constexpr int bias() const noexcept { return (1 << (exponent_bits - 1)) - 1; }
  constexpr bool has_infinity() const noexcept { return range != FloatRange::kSaturateOneNan; }
  /// Whether equal codes mean equal values; `range` may differ in what overflow becomes.
  constexpr bool decodes_like(const FloatShape& other) const noexcept {
    return exponent_bits == other.exponent_bits && mantissa_bits == other.mantissa_bits && has_infinity() == other.has_infinity();
  }
  /// The largest finite value. Requires: a shape that is not empty.
  constexpr double max_finite() const noexcept {
    double ulp = 1.0;  // of the largest binade
    for (int i = 0; i < bias() + (has_infinity() ? 0 : 1); ++i) ulp *= 2.0;
    for (int i = 0; i < mantissa_bits; ++i) ulp /= 2.0;
    const int codes = (2 << mantissa_bits) - (has_infinity() ? 1 : 2);
    return ulp * static_cast<double>(codes);
  }
  friend constexpr bool operator==(const FloatShape&, const FloatShape&) = default;
};

KVPAGE_END_NAMESPACE
