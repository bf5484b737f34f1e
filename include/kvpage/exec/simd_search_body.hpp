/// \file The search for the number of steps that rounds a group with the least error, as plain loops.
/// No include guard: included inside the region of simd_generic.hpp; the x86 paths have their own, with the same results.
#ifndef KVPAGE_LANES
#include <kvpage/exec/simd.hpp>
#else

/// The s of GroupScale::kSearched for 32 values in units of amax / 2^15. Requires: every lane in [-2^15, 2^15].
KVPAGE_LANES int least_error_steps(IntLanes low, IntLanes high) {
  const auto part = [&](int i, int steps) {  // x / d less the nearest integer, in 2^-16
    const int v = i < 16 ? low.v[i] : high.v[i - 16];
    return std::int32_t{static_cast<std::int16_t>((v < 32767 ? v : 32767) * 2 * steps)};
  };
  std::uint32_t least = ~0u;
  int best = 0;
  for (int steps = kMostSteps; steps >= kLeastSteps; --steps) {
    std::uint32_t sum = 0;
    for (int i = 0; i < 32; i += 2) {
      const std::int32_t a = part(i, steps), b = part(i + 1, steps);
      sum += (static_cast<std::uint32_t>(a * a) + static_cast<std::uint32_t>(b * b)) >> 20;
    }
    const std::uint32_t error = sum * kStepWeights[kMostSteps - steps] >> 16;
    if (error < least) least = error, best = steps;
  }
  return best;
}
#endif
