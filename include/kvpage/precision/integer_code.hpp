/// \file Rounding of a float to a small signed integer code.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// The integer nearest to `value`, ties to even, clamped to [lowest, highest]; NaN gives 0.
/// Requires: |lowest|, |highest| < 2^22.
KVPAGE_HD constexpr std::int32_t round_to_code(float value, float lowest, float highest) noexcept {
  if (!(value == value)) return 0;
  const float clamped = value < lowest ? lowest : (value > highest ? highest : value);
  constexpr float kAnchor = 0x1.8p23f;  // its ulp is 1: the addition rounds to an integer
  return static_cast<std::int32_t>((clamped + kAnchor) - kAnchor);
}
}  // namespace detail

KVPAGE_END_NAMESPACE
