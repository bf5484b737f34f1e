/// \file The oracle of quantize_rows: one value after the other.
#pragma once

#include <kvpage/kernels/quantize_rows/args.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

KVPAGE_BEGIN_NAMESPACE
namespace reference {

/// One group from `count` <= 32 values; the contract is QuantizedGroup.
inline QuantizedGroup quantize_group(const float* x, std::int64_t count) {
  QuantizedGroup group{};
  float amax = 0.0f;
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(x[i]);
    amax = std::max(amax, std::fabs(x[i]));
  }
  if (!finite) group.d = group.d_sum = std::numeric_limits<float>::quiet_NaN();
  if (!finite || amax < 0x1p-100f) return group;
  const float inverse = 127.0f / amax;
  for (std::int64_t i = 0; i < count; ++i) {
    group.q[i] = static_cast<std::int8_t>(std::nearbyint(x[i] * inverse));
    group.sum += group.q[i];
    if (i < 16) group.sum_low += group.q[i];
  }
  group.d = amax / 127.0f;
  group.d_sum = group.d * static_cast<float>(group.sum);
  return group;
}

/// Obvious loops; the contract is QuantizeRowsArgs.
inline Status quantize_rows(const QuantizeRowsArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  QuantizedRows out = args.out;
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    for (std::int64_t c = 0; c < out.cols; c += QuantizedGroup::kSize) {
      const std::int64_t count = std::min(QuantizedGroup::kSize, out.cols - c);
      out.row(r)[c / QuantizedGroup::kSize] = quantize_group(args.x + r * args.x_stride + c, count);
    }
  }
  return {};
}

}  // namespace reference
KVPAGE_END_NAMESPACE
