/// \file The values of float codes, derived from the definition of the formats in double arithmetic.
#pragma once

#include <kvpage/precision/precisions.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvpage_test {

/// The published numbers of one small float format.
struct FloatDefinition {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_infinity;          ///< all exponent bits set: infinity or NaN; else only all ones is NaN
  bool overflow_to_infinity;  ///< else overflow gives the largest finite value
};

template <class P>
inline constexpr FloatDefinition kDefinition{};
template <>
inline constexpr FloatDefinition kDefinition<kvpage::F16>{5, 10, 15, true, true};
template <>
inline constexpr FloatDefinition kDefinition<kvpage::BF16>{8, 7, 127, true, true};
template <>
inline constexpr FloatDefinition kDefinition<kvpage::Fp8E4M3>{4, 3, 7, false, false};
template <>
inline constexpr FloatDefinition kDefinition<kvpage::Fp8E5M2>{5, 2, 15, true, false};

/// Value of one code: (-1)^sign * 1.mantissa * 2^(exponent - bias), 0.mantissa * 2^(1 - bias) for exponent 0.
inline double defined_value(const FloatDefinition& format, std::uint32_t code) {
  const std::uint32_t mantissa_count = 1u << format.mantissa_bits;
  const std::uint32_t exponent_count = 1u << format.exponent_bits;
  const std::uint32_t mantissa = code % mantissa_count;
  const std::uint32_t exponent = code / mantissa_count % exponent_count;
  const double sign = code / mantissa_count / exponent_count % 2 == 1 ? -1.0 : 1.0;
  const bool top = exponent == exponent_count - 1;
  if (top && format.has_infinity) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (top && mantissa == mantissa_count - 1) return std::numeric_limits<double>::quiet_NaN();
  const double fraction = static_cast<double>(mantissa) / mantissa_count;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - format.bias);
  return sign * std::ldexp(1.0 + fraction, static_cast<int>(exponent) - format.bias);
}

/// The finite non-negative values in code order, which is ascending.
inline std::vector<double> finite_values(const FloatDefinition& format) {
  std::vector<double> values;
  for (std::uint32_t code = 0; std::isfinite(defined_value(format, code)); ++code) values.push_back(defined_value(format, code));
  return values;
}

/// Calls `fn.template operator()<P>()` for every float precision that has a definition above.
template <class Fn>
void for_each_small_float(Fn&& fn) {
  kvpage::for_each_type(kvpage::Precisions{}, [&]<class P>() {
    if constexpr (kDefinition<P>.exponent_bits != 0) fn.template operator()<P>();
  });
}

}  // namespace kvpage_test
