/// \file The online softmax of one step, and the merge and normalisation of a tile's states.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

KVPAGE_LANES float exp_scalar(float x) {
  float lanes[16];
  store(lanes, exp(broadcast(x)));
  return lanes[0];
}

/// x [n] *= factor, n a multiple of 16.
inline void scale_row(float* x, std::int64_t n, float factor) {
  const FloatLanes f = broadcast(factor);
  for (std::int64_t d = 0; d < n; d += 16) store(x + d, mul(load(x + d), f));
}

/// Turns one row's scores [32] into weights exp(score - max), and updates the row's state. `value_scales` [2] are per key.
template <bool kValueScales>
inline void softmax_row(const AttentionLaunch& launch, VisibleKeys keys, float bias, const FloatLanes* value_scales,
                        const AttentionRows& rows, std::int64_t row, float* scores) {
  FloatLanes s[2];
  const std::uint32_t seen = (keys.end >= 32 ? 0xFFFFFFFFu : (1u << keys.end) - 1u) & ~((1u << keys.begin) - 1u);
  const MaskLanes mask[2] = {mask_from_bits(seen & 0xFFFFu), mask_from_bits(seen >> 16)};
  const FloatLanes lowest = broadcast(-__builtin_inff());
  KVPAGE_UNROLL
  for (int h = 0; h < 2; ++h) {
    s[h] = add(load(scores + 16 * h), broadcast(bias));
    if (launch.softcap > 0.0f) {
      const FloatLanes cap = broadcast(launch.softcap);
      s[h] = mul(cap, tanh(div(s[h], cap)));
    }
    s[h] = select(mask[h], s[h], lowest);
  }
  float peak = reduce_max(max(s[0], s[1]));
  if (rows.sum[row] != 0.0f) {
    const float before = rows.max[row];
    if (peak > before) {
      const float keep = exp_scalar(before - peak);
      rows.sum[row] *= keep;
      scale_row(rows.out + row * launch.padded_dim, launch.padded_dim, keep);
    } else {
      peak = before;
    }
  }
  rows.max[row] = peak;
  FloatLanes weight[2];
  KVPAGE_UNROLL
  for (int h = 0; h < 2; ++h) weight[h] = select(mask[h], exp(sub(s[h], broadcast(peak))), zero());
  rows.sum[row] += reduce_add(add(weight[0], weight[1]));
  KVPAGE_UNROLL
  for (int h = 0; h < 2; ++h) store(scores + 16 * h, kValueScales ? mul(weight[h], value_scales[h]) : weight[h]);
}

/// The empty state, for rows [0, num_rows).
inline void clear_rows(const AttentionLaunch& launch, const AttentionRows& rows, std::int64_t num_rows) {
  for (std::int64_t r = 0; r < num_rows; ++r) {
    rows.max[r] = -__builtin_inff();
    rows.sum[r] = 0.0f;
  }
  for (std::int64_t i = 0; i < num_rows * launch.padded_dim; i += 16) store(rows.out + i, zero());
}

/// total += part, row by row: merge_attention (attention_state.hpp) on lanes.
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
    const float keep = exp_scalar(total.max[r] - peak);
    const float weight = exp_scalar(part.max[r] - peak);
    total.max[r] = peak;
    total.sum[r] = __builtin_fmaf(part.sum[r], weight, total.sum[r] * keep);
    for (std::int64_t d = 0; d < launch.padded_dim; d += 16) {
      store(out + d, fma(load(add_out + d), broadcast(weight), mul(load(out + d), broadcast(keep))));
    }
  }
}

/// The unnormalised Walsh-Hadamard transform of x [n], n a power of two >= 8.
inline void walsh_hadamard_lanes(float* x, std::int64_t n) {
  for (std::int64_t half = 1; half < n && half < 16; half *= 2) {
    for (std::int64_t block = 0; block < n; block += 2 * half) {
      for (std::int64_t i = block; i < block + half; ++i) {
        const float a = x[i];
        const float b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
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
