/// \file The online softmax of one step, and the merge and normalisation of a tile's states.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

/// Rows whose weights are computed side by side: each is a chain of a dozen operations.
inline constexpr int kSoftmaxRows = kScoreTileRows >= 6 ? 4 : 1;
/// Scores may exceed a row's `max` by this much before the row is scaled down: weights stay below 2^8, and rows are seldom scaled.
inline constexpr float kMaxSlack = 8.0f;

/// 2^x for x <= kMaxSlack, error at most 2 ulp; 2^-125 for everything below -125. exp2_weight(0) == 1; NaN stays NaN.
KVPAGE_LANES FloatLanes exp2_weight(FloatLanes x) {
  const FloatLanes clamped = max(broadcast(-125.0f), x);
  const FloatLanes magic = broadcast(12582912.0f + 127.0f);  // 1.5 * 2^23: adding it rounds; 127 makes the low bits an exponent
  const FloatLanes shifted = add(clamped, magic);
  const FloatLanes f = sub(clamped, sub(shifted, magic));
  FloatLanes p = broadcast(0.000154531634f);  // (2^f - 1) / f, interpolated at Chebyshev nodes of [-1/2, 1/2]: error 5e-9
  p = fma(p, f, broadcast(0.00133908633f));
  p = fma(p, f, broadcast(0.00961808302f));
  p = fma(p, f, broadcast(0.0555035695f));
  p = fma(p, f, broadcast(0.240226507f));
  p = fma(p, f, broadcast(0.693147182f));
  p = fma(p, f, broadcast(1.0f));
  return mul(p, from_bits(shift_left_int<23>(bits_of(shifted))));
}

KVPAGE_LANES float exp2_scalar(float x) {
  float lanes[16];
  store(lanes, exp2_weight(broadcast(x)));
  return lanes[0];
}

/// x [n] *= factor, n a multiple of 16.
inline void scale_row(float* x, std::int64_t n, float factor) {
  const FloatLanes f = broadcast(factor);
  for (std::int64_t d = 0; d < n; d += 16) store(x + d, mul(load(x + d), f));
}

/// Raises the `max` of a row to `peak`, before step `step` of a pair. Weights of the step before it are not added to `out` yet.
inline void raise_max(const AttentionLaunch& launch, const AttentionScratch& scratch, std::int64_t row, float peak, int step) {
  const float before = scratch.part.max[row];
  scratch.part.max[row] = peak;
  if (before == -__builtin_inff()) return;  // nothing is summed yet
  const float keep = exp2_scalar(before - peak);
  scale_row(scratch.lane_sum + row * 16, 16, keep);
  scale_row(scratch.part.out + row * launch.padded_dim, launch.padded_dim, keep);
  if (step > 0) scale_row(scratch.scores + row * kAttentionPairTokens, kAttentionStepTokens, keep);
}

/// Scores of kRows rows from `row` on in step `step` of the pair, with bias and cap.
template <int kRows>
KVPAGE_LANES void load_scores(const AttentionLaunch& launch, const AttentionScratch& scratch, bool biased, int step, std::int64_t row,
                              FloatLanes (&s)[kRows][2]) {
  const float* scores = scratch.scores + row * kAttentionPairTokens + step * kAttentionStepTokens;
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVPAGE_UNROLL
    for (int h = 0; h < 2; ++h) s[r][h] = load(scores + r * kAttentionPairTokens + 16 * h);
  }
  if (biased) {
    for (int r = 0; r < kRows; ++r) {
      for (int h = 0; h < 2; ++h) s[r][h] = add(s[r][h], broadcast(scratch.bias_score[row + r]));
    }
  }
  if (launch.softcap > 0.0f) {
    const FloatLanes cap = broadcast(launch.softcap);
    for (int r = 0; r < kRows; ++r) {
      for (int h = 0; h < 2; ++h) s[r][h] = mul(cap, tanh(div(s[r][h], cap)));
    }
  }
}

/// Turns scores [kRows, 32] of step `step` into weights 2^(score - max), and updates the rows' states. `value_scales` [2] are per key.
/// kMasked: keys that a row does not see get weight 0.
template <bool kValueScales, bool kMasked, int kRows>
inline void softmax_rows(const AttentionLaunch& launch, const AttentionScratch& scratch, bool biased, const FloatLanes* value_scales,
                         int step, std::int64_t row) {
  FloatLanes s[kRows][2];
  load_scores<kRows>(launch, scratch, biased, step, row, s);
  MaskLanes mask[kRows][2];
  if constexpr (kMasked) {
    for (int r = 0; r < kRows; ++r) {
      const VisibleKeys keys = scratch.visible[row + r];
      const std::uint64_t below = keys.begin >= 64 ? ~0ull : (1ull << keys.begin) - 1u;
      const std::uint64_t pair = (keys.end >= 64 ? ~0ull : (1ull << keys.end) - 1u) & ~below;
      const auto seen = static_cast<std::uint32_t>(pair >> (32 * step));
      for (int h = 0; h < 2; ++h) {
        mask[r][h] = mask_from_bits(seen >> (16 * h) & 0xFFFFu);
        s[r][h] = select(mask[r][h], s[r][h], broadcast(-__builtin_inff()));
      }
    }
  }
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const FloatLanes peak = max(s[r][0], s[r][1]);
    const FloatLanes limit = broadcast(scratch.part.max[row + r] + kMaxSlack);
    if (mask_bits(less(limit, peak)) != 0) raise_max(launch, scratch, row + r, reduce_max(peak), step);
  }
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const FloatLanes peak = broadcast(scratch.part.max[row + r]);
    KVPAGE_UNROLL
    for (int h = 0; h < 2; ++h) {
      s[r][h] = exp2_weight(sub(s[r][h], peak));
      if constexpr (kMasked) s[r][h] = select(mask[r][h], s[r][h], zero());
    }
  }
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float* sum = scratch.lane_sum + (row + r) * 16;
    store(sum, add(load(sum), add(s[r][0], s[r][1])));
    float* weights = scratch.scores + (row + r) * kAttentionPairTokens + step * kAttentionStepTokens;
    KVPAGE_UNROLL
    for (int h = 0; h < 2; ++h) {
      FloatLanes weight = kValueScales ? mul(s[r][h], value_scales[h]) : s[r][h];
      if constexpr (kValueScales && kMasked) weight = select(mask[r][h], weight, zero());  // the scale of an unseen value may be NaN
      store(weights + 16 * h, weight);
    }
  }
}

/// softmax_rows of a tile.
template <bool kValueScales, bool kMasked>
inline void softmax_tile(const AttentionLaunch& launch, const AttentionScratch& scratch, bool biased, const FloatLanes* value_scales,
                         int step, std::int64_t num_rows) {
  std::int64_t row = 0;
  for (; num_rows - row >= kSoftmaxRows; row += kSoftmaxRows) {
    softmax_rows<kValueScales, kMasked, kSoftmaxRows>(launch, scratch, biased, value_scales, step, row);
  }
  if constexpr (kSoftmaxRows >= 4) {
    if (num_rows - row == 3) return softmax_rows<kValueScales, kMasked, 3>(launch, scratch, biased, value_scales, step, row);
  }
  for (; row < num_rows; ++row) softmax_rows<kValueScales, kMasked, 1>(launch, scratch, biased, value_scales, step, row);
}

/// The empty state, for rows [0, num_rows).
inline void open_split(const AttentionLaunch& launch, const AttentionScratch& scratch, std::int64_t num_rows) {
  for (std::int64_t r = 0; r < num_rows; ++r) scratch.part.max[r] = -__builtin_inff();
  for (std::int64_t i = 0; i < num_rows * 16; i += 16) store(scratch.lane_sum + i, zero());
  for (std::int64_t i = 0; i < num_rows * launch.padded_dim; i += 16) store(scratch.part.out + i, zero());
}

/// The sums of a split's rows.
inline void close_split(const AttentionScratch& scratch, std::int64_t num_rows) {
  for (std::int64_t r = 0; r < num_rows; ++r) scratch.part.sum[r] = reduce_add(load(scratch.lane_sum + r * 16));
}

/// total += part, row by row: merge_attention (attention_state.hpp) on lanes, to base 2.
inline void merge_rows(const AttentionLaunch& launch, const AttentionRows& total, const AttentionRows& part, std::int64_t num_rows) {
  for (std::int64_t r = 0; r < num_rows; ++r) {
    if (part.sum[r] == 0.0f) continue;
    float* out = total.out + r * launch.padded_dim;
    const float* add_out = part.out + r * launch.padded_dim;
    if (total.sum[r] == 0.0f) {
      total.max[r] = part.max[r];
      total.sum[r] = part.sum[r];
      for (std::int64_t d = 0; d < launch.padded_dim; d += 16) store(out + d, load(add_out + d));
      continue;
    }
    const float peak = part.max[r] > total.max[r] ? part.max[r] : total.max[r];
    const float keep = exp2_scalar(total.max[r] - peak);
    const float weight = exp2_scalar(part.max[r] - peak);
    total.max[r] = peak;
    total.sum[r] = __builtin_fmaf(part.sum[r], weight, total.sum[r] * keep);
    for (std::int64_t d = 0; d < launch.padded_dim; d += 16) {
      store(out + d, fma(load(add_out + d), broadcast(weight), mul(load(out + d), broadcast(keep))));
    }
  }
}

/// The unnormalised Walsh-Hadamard transform of x [n], n a power of two. Blocks of 16 are products with the matrix of signs: as many
/// additions as lanes, but no shuffles.
inline void walsh_hadamard_lanes(float* x, std::int64_t n) {
  if (n < 16) return kvpage::detail::walsh_hadamard(x, n);
  for (std::int64_t block = 0; block < n; block += 16) {
    FloatLanes sum = broadcast(x[block]);
    KVPAGE_UNROLL
    for (int i = 1; i < 16; ++i) sum = fma(broadcast(x[block + i]), load(kvpage::detail::kWalshSigns.value[i]), sum);
    store(x + block, sum);
  }
  for (std::int64_t half = 16; half < n; half *= 2) {
    for (std::int64_t block = 0; block < n; block += 2 * half) {
      for (std::int64_t i = block; i < block + half; i += 16) {
        const FloatLanes a = load(x + i);
        const FloatLanes b = load(x + i + half);
        store(x + i, add(a, b));
        store(x + i + half, sub(a, b));
      }
    }
  }
}

/// hadamard_rotate (kInverse: hadamard_unrotate) of x [head_dim].
template <bool kInverse>
inline void rotate_row(float* x, std::int64_t head_dim) {
  for (std::int64_t begin = 0; begin < head_dim;) {
    std::int64_t size = 1;
    while (2 * size <= head_dim - begin) size *= 2;
    const float norm = 1.0f / __builtin_sqrtf(static_cast<float>(size));
    if (!kInverse) {
      for (std::int64_t d = begin; d < begin + size; ++d) x[d] *= kRotationSigns.value[d];
    }
    walsh_hadamard_lanes(x + begin, size);
    for (std::int64_t d = begin; d < begin + size; ++d) x[d] *= kInverse ? norm * kRotationSigns.value[d] : norm;
    begin += size;
  }
}

}  // namespace detail
#endif
