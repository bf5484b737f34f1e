/// \file Scores of a tile's rows against 32 keys, straight from the codes of the page.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

using kvpage::detail::AttentionLaunch;
using kvpage::detail::AttentionRows;
using kvpage::detail::AttentionScratch;
using kvpage::detail::AttentionStep;
using kvpage::detail::AttentionTile;
using kvpage::detail::VisibleKeys;
using kvpage::detail::kCodesAreHalf;
using kvpage::detail::kCodesAreUpperHalf;
using kvpage::detail::kIntegerDots;
using kvpage::detail::kScaledVectors;

/// Lanes that take two registers leave room for fewer rows.
template <class L>
concept PairedLanes = requires(L lanes) { lanes.lo; };
template <class L>
concept LoopedLanes = std::is_array_v<decltype(L::v)>;
/// Rows of a register tile: lanes in one register, in two, or (plain loops) in none.
inline constexpr int kTileRows = LoopedLanes<FloatLanes> ? 1 : (PairedLanes<FloatLanes> ? 3 : 12);

/// 16 values of a plain format, from its codes.
template <class Codec>
KVPAGE_LANES FloatLanes load_plain(const std::byte* codes) {
  using Code = typename Codec::Code;
  if constexpr (std::is_same_v<Code, float>) {
    return load(reinterpret_cast<const float*>(codes));
  } else if constexpr (kCodesAreHalf<Codec>) {
    return load_half(reinterpret_cast<const std::uint16_t*>(codes));
  } else if constexpr (kCodesAreUpperHalf<Codec>) {
    return load_bfloat(reinterpret_cast<const std::uint16_t*>(codes));
  } else {
    float values[16];
    for (int i = 0; i < 16; ++i) values[i] = Codec::decode(reinterpret_cast<const Code*>(codes)[i], nullptr, 0);
    return load(values);
  }
}

/// The current step and the two after it (or again the last one). Pages lie anywhere, so nothing but the block table knows
/// what comes next: the second next step is fetched into the second-level cache, the next one from there into the first.
struct StepWindow {
  AttentionStep now, next, later;
};

KVPAGE_LANES void prefetch_line(const std::byte* next, const std::byte* later) {
  prefetch(next);
  __builtin_prefetch(later, 0, 2);
}

KVPAGE_LANES void prefetch_keys(const StepWindow& steps, std::int64_t offset) {
  prefetch_line(steps.next.keys[0] + offset, steps.later.keys[0] + offset);
  prefetch_line(steps.next.keys[1] + offset, steps.later.keys[1] + offset);
}

/// scores [kRows, 32] of plain keys: per key one chain of fused multiply-adds over the dims, ascending.
template <class Key, int kRows>
inline void score_rows_plain(const AttentionLaunch& launch, const StepWindow& steps, const float* q, float* scores) {
  FloatLanes acc[kRows][2];
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = zero();
  const std::byte* left = steps.now.keys[0];
  const std::byte* right = steps.now.keys[1];
  for (std::int64_t d = 0; d < launch.padded_dim; ++d, left += launch.key_stride, right += launch.key_stride) {
    prefetch_keys(steps, d * launch.key_stride);
    const FloatLanes k0 = load_plain<Key>(left);
    const FloatLanes k1 = load_plain<Key>(right);
    KVPAGE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes x = broadcast(q[r * launch.padded_dim + d]);
      acc[r][0] = fma(x, k0, acc[r][0]);
      acc[r][1] = fma(x, k1, acc[r][1]);
    }
  }
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    store(scores + r * kAttentionStepTokens, acc[r][0]);
    store(scores + r * kAttentionStepTokens + 16, acc[r][1]);
  }
}

/// What a row of integer-coded queries needs: q = scale * (128 * high + low), two exact integer dots per key.
struct CodedQueries {
  const std::int8_t* high;         // [rows, padded_dim]
  const std::int8_t* low;          // [rows, padded_dim]
  const float* scale;              // [rows]
  const std::int32_t* start;       // [rows, 2]
  const float* group_sum;          // [rows, groups]
};

/// scores [kRows, 32] of 8-bit keys: integer dots over all dims, exact, then one rounding and the two scales.
template <class Key, int kRows>
inline void score_rows_symmetric(const AttentionLaunch& launch, const StepWindow& steps, const CodedQueries& q, float* scores) {
  IntLanes high[kRows][2];
  IntLanes low[kRows][2];
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    high[r][0] = high[r][1] = broadcast_int(q.start[2 * r]);
    low[r][0] = low[r][1] = broadcast_int(q.start[2 * r + 1]);
  }
  const std::byte* left = steps.now.keys[0];
  const std::byte* right = steps.now.keys[1];
  for (std::int64_t d = 0; d < launch.padded_dim; d += 4, left += launch.key_stride, right += launch.key_stride) {
    prefetch_keys(steps, d / 4 * launch.key_stride);
    const ByteLanes k0 = load_bytes(left);
    const ByteLanes k1 = load_bytes(right);
    KVPAGE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const ByteLanes h = broadcast_quad(q.high + r * launch.padded_dim + d);
      const ByteLanes l = broadcast_quad(q.low + r * launch.padded_dim + d);
      high[r][0] = dot_centered(high[r][0], k0, h);
      high[r][1] = dot_centered(high[r][1], k1, h);
      low[r][0] = dot_centered(low[r][0], k0, l);
      low[r][1] = dot_centered(low[r][1], k1, l);
    }
  }
  KVPAGE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const FloatLanes key_scale = load_half(steps.now.key_params[half]);
    KVPAGE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes dot = to_float(add_int(shift_left_int<7>(high[r][half]), low[r][half]));
      store(scores + r * kAttentionStepTokens + 16 * half, mul(dot, mul(broadcast(q.scale[r]), key_scale)));
    }
  }
}

/// scores [kRows, 16] of one half of 4-bit keys: per group of 32 dims an exact integer dot, then scale and minimum of the group.
template <int kRows>
inline void score_rows_grouped(const AttentionLaunch& launch, const StepWindow& steps, int half, const CodedQueries& q,
                               float* scores) {
  const std::byte* keys = steps.now.keys[half];
  const std::uint16_t* params = steps.now.key_params[half];
  const std::int64_t num_words = launch.padded_dim / 4;
  const std::int64_t num_groups = (launch.padded_dim + 31) / 32;
  const ByteLanes nibble = broadcast_byte(15);
  FloatLanes acc[kRows];
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) acc[r] = zero();
  for (std::int64_t g = 0; g < num_groups; ++g) {
    IntLanes high[kRows];
    IntLanes low[kRows];
    KVPAGE_UNROLL
    for (int r = 0; r < kRows; ++r) high[r] = low[r] = zero_int();
    for (std::int64_t word = 8 * g; word < 8 * g + 8 && word < num_words; ++word) {
      const bool upper = 2 * word >= num_words;
      const std::int64_t offset = (upper ? word - num_words / 2 : word) * launch.key_stride;
      prefetch_line(steps.next.keys[half] + offset, steps.later.keys[half] + offset);
      const ByteLanes pair = load_bytes(keys + offset);
      const ByteLanes k = and_bytes(upper ? shift_right_bytes<4>(pair) : pair, nibble);
      KVPAGE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        high[r] = dot_codes(high[r], k, broadcast_quad(q.high + r * launch.padded_dim + 4 * word));
        low[r] = dot_codes(low[r], k, broadcast_quad(q.low + r * launch.padded_dim + 4 * word));
      }
    }
    const FloatLanes scale = load_half(params + 2 * g * launch.param_stride);
    const FloatLanes minimum = load_half(params + (2 * g + 1) * launch.param_stride);
    KVPAGE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes dot = to_float(add_int(shift_left_int<7>(high[r]), low[r]));
      acc[r] = fma(dot, mul(broadcast(q.scale[r]), scale), acc[r]);
      acc[r] = fma(broadcast(q.group_sum[r * num_groups + g]), minimum, acc[r]);
    }
  }
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) store(scores + r * kAttentionStepTokens, acc[r]);
}

/// Runs `kRows` rows from `row` on, in the arithmetic that the keys' codec asks for.
template <class Key, int kRows>
inline void score_rows(const AttentionLaunch& launch, const StepWindow& steps, const AttentionScratch& scratch, std::int64_t row) {
  float* scores = scratch.scores + row * kAttentionStepTokens;
  const std::int64_t at = row * launch.padded_dim;
  if constexpr (!kIntegerDots<Key>) {
    score_rows_plain<Key, kRows>(launch, steps, scratch.scaled_q + at, scores);
  } else {
    const CodedQueries q{scratch.q_high + at, scratch.q_low + at, scratch.q_scale + row, scratch.q_start + 2 * row,
                         scratch.q_group_sum + row * ((launch.padded_dim + 31) / 32)};
    if constexpr (Key::kBits == 4) {
      for (int half = 0; half < 2; ++half) score_rows_grouped<kRows>(launch, steps, half, q, scores + 16 * half);
    } else {
      score_rows_symmetric<Key, kRows>(launch, steps, q, scores);
    }
  }
}

/// Scores of rows [0, num_rows), in the largest register tiles that fit.
template <class Key>
inline void score_tile(const AttentionLaunch& launch, const StepWindow& steps, const AttentionScratch& scratch,
                       std::int64_t num_rows) {
  std::int64_t row = 0;
  if constexpr (kTileRows >= 12 && !kIntegerDots<Key>) {
    for (; num_rows - row >= 12; row += 12) score_rows<Key, 12>(launch, steps, scratch, row);
  }
  if constexpr (kTileRows >= 6) {
    for (; num_rows - row >= 6; row += 6) score_rows<Key, 6>(launch, steps, scratch, row);
    for (; num_rows - row >= 4; row += 4) score_rows<Key, 4>(launch, steps, scratch, row);
  }
  if constexpr (kTileRows >= 3) {
    for (; num_rows - row >= 3; row += 3) score_rows<Key, 3>(launch, steps, scratch, row);
    for (; num_rows - row >= 2; row += 2) score_rows<Key, 2>(launch, steps, scratch, row);
  }
  for (; row < num_rows; ++row) score_rows<Key, 1>(launch, steps, scratch, row);
}

}  // namespace detail
#endif
