/// \file The oracle of quantize_rows: one value after the other.
#pragma once

#include <kvpage/kernels/quantize_rows/args.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

KVPAGE_BEGIN_NAMESPACE
namespace reference {

/// The number of steps of GroupScale::kSearched for `count` values whose largest is `amax`, a number.
inline int searched_steps(const float* x, std::int64_t count, float amax) {
  const float scale = 0x1p15f / amax;
  int best = kMostSteps;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int steps = kMostSteps; steps >= kLeastSteps; --steps) {
    std::int64_t squares[QuantizedGroup::kSize] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const auto v = std::min<std::int64_t>(std::llrint(x[i] * scale), 32767);
      const std::int64_t product = 2 * v * steps;                                          // x / d in 2^-16
      const std::int64_t error = product - ((product + 32768) >> 16) * 65536;  // ties up: all that counts is the square
      squares[i] = error * error;
    }
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < std::size(squares); i += 2) sum += (squares[i] + squares[i + 1]) >> 20;
    const std::int64_t weighted = sum * kStepWeights[kMostSteps - steps] >> 16;
    if (weighted < least) least = weighted, best = steps;
  }
  return best;
}

/// One group from `count` <= 32 values; the contract is QuantizedGroup.
inline QuantizedGroup quantize_group(const float* x, std::int64_t count, GroupScale group_scale) {
  QuantizedGroup group{};
  float amax = 0.0f;
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(x[i]);
    amax = std::max(amax, std::fabs(x[i]));
  }
  if (!finite) group.d = group.d_sum = std::numeric_limits<float>::quiet_NaN();
  if (!finite || amax < 0x1p-100f) return group;
  const auto steps = static_cast<float>(group_scale == GroupScale::kSearched ? searched_steps(x, count, amax) : kMostSteps);
  const float inverse = steps / amax;
  for (std::int64_t i = 0; i < count; ++i) {
    group.q[i] = static_cast<std::int8_t>(std::nearbyint(x[i] * inverse));
    group.sum += group.q[i];
    if (i < 16) group.sum_low += group.q[i];
  }
  group.d = amax / steps;
  group.d_sum = group.d * static_cast<float>(group.sum);
  return group;
}

/// Obvious loops; the contract is QuantizeRowsArgs.
template <Element X = float>
Status quantize_rows(const BasicQuantizeRowsArgs<X>& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  QuantizedRows out = args.out;
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    for (std::int64_t c = 0; c < out.cols; c += QuantizedGroup::kSize) {
      const std::int64_t count = std::min(QuantizedGroup::kSize, out.cols - c);
      float values[QuantizedGroup::kSize];
      for (std::int64_t i = 0; i < count; ++i) values[i] = ElementCodec<X>::decode(args.x[r * args.x_stride + c + i]);
      out.row(r)[c / QuantizedGroup::kSize] = quantize_group(values, count, args.group_scale);
    }
  }
  return {};
}

}  // namespace reference
KVPAGE_END_NAMESPACE
