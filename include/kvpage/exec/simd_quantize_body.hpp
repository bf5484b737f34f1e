/// \file quantize_group: 32 floats to one QuantizedGroup, the same bits on every instruction set.
/// No include guard: simd.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/exec/simd.hpp>
#else

/// Quantises elements 0..15 in `low` and 16..31 in `high`; the contract is QuantizedGroup.
inline void quantize_group(FloatLanes low, FloatLanes high, QuantizedGroup* group) {
  const IntLanes magnitude = broadcast_int(0x7fffffff);
  // The bits of absolute values order like integers, NaN and infinity above all numbers.
  const std::int32_t amax_bits = reduce_max_int(max_int(and_int(bits_of(low), magnitude), and_int(bits_of(high), magnitude)));
  constexpr std::int32_t kInfinityBits = 0x7f800000;
  constexpr std::int32_t kTinyBits = 0x0d800000;  // 2^-100
  if (amax_bits < kTinyBits || amax_bits >= kInfinityBits) {
    store_s8(group->q, zero_int());
    store_s8(group->q + 16, zero_int());
    group->d = amax_bits < kTinyBits ? 0.0f : __builtin_nanf("");
    group->d_sum = group->d;
    group->sum = 0;
    group->sum_low = 0;
    return;
  }
  float amax;
  __builtin_memcpy(&amax, &amax_bits, sizeof amax);
  const FloatLanes inverse = broadcast(127.0f / amax);
  const IntLanes q_low = round_to_int(mul(low, inverse));
  const IntLanes q_high = round_to_int(mul(high, inverse));
  store_s8(group->q, q_low);
  store_s8(group->q + 16, q_high);
  group->d = amax / 127.0f;
  // One reduction for both halves: the low one in bits 0..15, the high one above; |sum| <= 16 * 127.
  const std::int32_t both = reduce_add_int(add_int(q_low, shift_left_int<16>(q_high)));
  group->sum_low = static_cast<std::int16_t>(both);
  group->sum = group->sum_low + ((both - group->sum_low) >> 16);
  group->d_sum = group->d * static_cast<float>(group->sum);
}
#endif
