/// \file sin_cos: sine and cosine of rope's angles in double, without the C library.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// Sine and cosine of one angle.
struct SinCos {
  double sin;
  double cos;
};

namespace detail {
/// sin and cos of |r| <= pi / 4 by their Taylor series: the first term left out is below 1e-13.
constexpr SinCos sin_cos_reduced(double r) noexcept {
  const double z = r * r;
  const double s = r * (1.0 - z / 6.0 * (1.0 - z / 20.0 * (1.0 - z / 42.0 * (1.0 - z / 72.0 * (1.0 - z / 110.0 * (1.0 - z / 156.0))))));
  const double c = 1.0 - z / 2.0 * (1.0 - z / 12.0 * (1.0 - z / 30.0 * (1.0 - z / 56.0 * (1.0 - z / 90.0 * (1.0 - z / 132.0)))));
  return {s, c};
}
}  // namespace detail

/// Error below 1e-10 for 0 <= angle < 2^27, far inside the rounding to float.
/// The multiple of pi / 2 is taken out in two parts, of which the first has 24 bits, so that the product is exact.
constexpr SinCos sin_cos(double angle) noexcept {
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kHalfPiHigh = 0x1.921fb4p+0;
  constexpr double kHalfPiLow = 0x1.4442d18469899p-24;
  const auto n = static_cast<std::int64_t>(angle * kTwoOverPi + 0.5);
  const double turns = static_cast<double>(n);
  const SinCos r = detail::sin_cos_reduced(angle - turns * kHalfPiHigh - turns * kHalfPiLow);
  switch (n & 3) {
    case 0: return {r.sin, r.cos};
    case 1: return {r.cos, -r.sin};
    case 2: return {-r.sin, -r.cos};
    default: return {-r.cos, r.sin};
  }
}

KVPAGE_END_NAMESPACE
