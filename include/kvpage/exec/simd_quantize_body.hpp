/// \file 32 floats to one QuantizedGroup, the same bits on every instruction set.
/// No include guard: simd.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/exec/simd.hpp>
#else

namespace detail {
constexpr std::int32_t kInfinityBits = 0x7f800000;
constexpr std::int32_t kLeastCountedBits = 0x0d800000;  // 2^-100

/// The bits of the largest absolute value: they order like integers, NaN and infinity above all numbers.
KVPAGE_LANES std::int32_t largest_bits(FloatLanes low, FloatLanes high) {
  const IntLanes magnitude = broadcast_int(0x7fffffff);
  return reduce_max_int(max_int(and_int(bits_of(low), magnitude), and_int(bits_of(high), magnitude)));
}

/// Whether a group whose largest value has these bits has codes.
KVPAGE_LANES bool has_codes(std::int32_t amax_bits) { return amax_bits >= kLeastCountedBits && amax_bits < kInfinityBits; }

/// What has no codes: zeros, or NaN in place of what is no number.
KVPAGE_LANES void store_no_codes(std::int32_t amax_bits, QuantizedGroup* group) {
  store_s8(group->q, zero_int());
  store_s8(group->q + 16, zero_int());
  group->d = amax_bits < kLeastCountedBits ? 0.0f : __builtin_nanf("");
  group->d_sum = group->d;
  group->sum = 0;
  group->sum_low = 0;
}

/// A group with codes: `inverse` = steps / amax, `d` = amax / steps.
KVPAGE_LANES void store_codes(FloatLanes low, FloatLanes high, float inverse, float d, QuantizedGroup* group) {
  const IntLanes q_low = round_to_int(mul(low, broadcast(inverse)));
  const IntLanes q_high = round_to_int(mul(high, broadcast(inverse)));
  store_s8(group->q, q_low);
  store_s8(group->q + 16, q_high);
  group->d = d;
  // One reduction for both halves: the low one in bits 0..15, the high one above; |sum| <= 16 * 127.
  const std::int32_t both = reduce_add_int(add_int(q_low, shift_left_int<16>(q_high)));
  group->sum_low = static_cast<std::int16_t>(both);
  group->sum = group->sum_low + ((both - group->sum_low) >> 16);
  group->d_sum = group->d * static_cast<float>(group->sum);
}
}  // namespace detail

/// Quantises elements 0..15 in `low` and 16..31 in `high` with GroupScale::kLargest; the contract is QuantizedGroup.
inline void quantize_group(FloatLanes low, FloatLanes high, QuantizedGroup* group) {
  const std::int32_t amax_bits = detail::largest_bits(low, high);
  if (!detail::has_codes(amax_bits)) return detail::store_no_codes(amax_bits, group);
  float amax;
  __builtin_memcpy(&amax, &amax_bits, sizeof amax);
  detail::store_codes(low, high, static_cast<float>(kMostSteps) / amax, amax / static_cast<float>(kMostSteps), group);
}

/// Groups that quantize_searched takes at once: the whole row of a small model.
inline constexpr int kSearchedGroups = 32;

/// The same with GroupScale::kSearched for 32 * `num_groups` values. Each loop has short chains of dependent instructions, and
/// divisions are done for 16 groups at once: a single loop would wait for them and takes 1.5 times as long.
/// Requires: num_groups <= kSearchedGroups.
inline void quantize_searched(const float* x, int num_groups, QuantizedGroup* groups) {
  std::int32_t amax_bits[kSearchedGroups] = {};
  std::int32_t steps[kSearchedGroups] = {};
  float scale[kSearchedGroups], inverse[kSearchedGroups], d[kSearchedGroups];
  for (int g = 0; g < num_groups; ++g) amax_bits[g] = detail::largest_bits(load(x + 32 * g), load(x + 32 * g + 16));
  for (int g = 0; g < num_groups; g += 16) store(scale + g, div(broadcast(0x1p15f), from_bits(load_int(amax_bits + g))));
  for (int g = 0; g < num_groups; ++g) {
    if (!detail::has_codes(amax_bits[g])) continue;
    const FloatLanes s = broadcast(scale[g]);
    steps[g] = least_error_steps(round_to_int(mul(load(x + 32 * g), s)), round_to_int(mul(load(x + 32 * g + 16), s)));
  }
  for (int g = 0; g < num_groups; g += 16) {
    const FloatLanes amax = from_bits(load_int(amax_bits + g)), count = to_float(load_int(steps + g));
    store(inverse + g, div(count, amax));
    store(d + g, div(amax, count));
  }
  for (int g = 0; g < num_groups; ++g) {
    if (detail::has_codes(amax_bits[g])) detail::store_codes(load(x + 32 * g), load(x + 32 * g + 16), inverse[g], d[g], groups + g);
    else detail::store_no_codes(amax_bits[g], groups + g);
  }
}
#endif
