/// \file Weighted sums of two steps' 8-bit values by integer dots: the weights become codes too, the values words of four tokens.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

using kvpage::detail::kIntegerSums;

/// Rows and vectors of 16 dims of a register tile: 24 sums where there are 32 registers.
inline constexpr int kSumTileRows = LoopedLanes<FloatLanes> ? 1 : 3;
inline constexpr int kSumTileVectors = kScoreTileRows >= 6 ? 4 : 1;
/// Bytes of one row's weight codes: 64 high parts, 64 low parts.
inline constexpr std::int64_t kWeightCodeBytes = 2 * kAttentionPairTokens;

/// Codes of the weights [num_rows, 64] of halves [first_half, end_half): weight = scale * (128 * high + low), both parts 0..127.
/// 14 bits of a row's largest weight, so that the weights add no error beside the values' 8 bits. NaN and infinity end in the scale.
inline void code_weights(const AttentionScratch& scratch, int first_half, int end_half, std::int64_t num_rows) {
  constexpr float kLargestCode = 127.0f * 128.0f + 127.0f;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* weights = scratch.scores + row * kAttentionPairTokens;
    std::int8_t* codes = scratch.weight_codes + row * kWeightCodeBytes;
    IntLanes bits = zero_int();
    for (int half = first_half; half < end_half; ++half) bits = max_int(bits, bits_of(abs(load(weights + 16 * half))));
    const float largest = __builtin_bit_cast(float, reduce_max_int(bits));
    const bool codable = largest >= 0x1p-100f && largest <= 0x1.fffffep127f;
    const FloatLanes inverse = broadcast(codable ? kLargestCode / largest : 0.0f);
    // Adding -0 changes no sum, not even one of -0: as if the row did not take part.
    scratch.weight_scale[row] = codable ? largest / kLargestCode : (largest < 0x1p-100f ? -0.0f : __builtin_nanf(""));
    for (int half = first_half; half < end_half; ++half) {
      const IntLanes code = codable ? round_to_int(mul(load(weights + 16 * half), inverse)) : zero_int();
      store_s8(codes + 16 * half, shift_right_int<7>(code));
      store_s8(codes + kAttentionPairTokens + 16 * half, and_int(code, broadcast_int(127)));
    }
  }
}

/// value_words [16, padded_dim, 4] = the pair's values, four tokens side by side.
inline void gather_value_words(const AttentionLaunch& launch, const AttentionScratch& scratch, const PairsAhead& pairs) {
  std::byte* words = scratch.value_words + 16 * pairs.first_half * launch.padded_dim;
  for (int half = pairs.first_half; half < pairs.end_half; ++half) {
    for (std::int64_t begin = 0; begin < 16 * launch.value_stride; begin += 4 * launch.value_stride) {
      for (std::int64_t byte = begin; byte < begin + 4 * launch.value_stride; byte += 64) {
        prefetch_line(pairs.next.values[half] + byte, pairs.later.values[half] + byte);
      }
      for (std::int64_t d = 0; d < launch.padded_dim; d += 16, words += 64) {
        store_bytes(words, load_transposed(pairs.now.values[half] + begin + d, launch.value_stride));
      }
    }
  }
}

/// out [kRows, 16 * kVectors] += scale * the integer dots of the weights' and the values' codes, exact.
template <int kRows, int kVectors>
inline void sum_rows(const AttentionLaunch& launch, const AttentionScratch& scratch, const PairsAhead& pairs, std::int64_t row,
                     std::int64_t d) {
  IntLanes high[kRows][kVectors];
  IntLanes low[kRows][kVectors];
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVPAGE_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      high[r][j] = zero_int();
      low[r][j] = zero_int();
    }
  }
  const std::byte* words = scratch.value_words + 16 * pairs.first_half * launch.padded_dim + 4 * d;
  for (int half = pairs.first_half; half < pairs.end_half; ++half) {
    KVPAGE_UNROLL  // sums that a short loop carries are copied, and kept on the stack, in every turn of it
    for (int quad = 0; quad < 4; ++quad, words += 4 * launch.padded_dim) {
      ByteLanes value[kVectors];
      KVPAGE_UNROLL
      for (int j = 0; j < kVectors; ++j) value[j] = load_bytes(words + 64 * j);
      KVPAGE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const std::int8_t* weights = scratch.weight_codes + (row + r) * kWeightCodeBytes + 16 * half + 4 * quad;
        const ByteLanes w_high = broadcast_quad(weights);
        const ByteLanes w_low = broadcast_quad(weights + kAttentionPairTokens);
        KVPAGE_UNROLL
        for (int j = 0; j < kVectors; ++j) {
          high[r][j] = dot_codes(high[r][j], w_high, value[j]);
          low[r][j] = dot_codes(low[r][j], w_low, value[j]);
        }
      }
    }
  }
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float* out = scratch.part.out + (row + r) * launch.padded_dim + d;
    const FloatLanes scale = broadcast(scratch.weight_scale[row + r]);
    KVPAGE_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const FloatLanes dot = to_float(add_int(shift_left_int<7>(high[r][j]), low[r][j]));
      store(out + 16 * j, fma(dot, scale, load(out + 16 * j)));
    }
  }
}

/// sum_rows over all dims.
template <int kRows>
inline void sum_dims(const AttentionLaunch& launch, const AttentionScratch& scratch, const PairsAhead& pairs, std::int64_t row) {
  std::int64_t d = 0;
  for (; launch.padded_dim - d >= 16 * kSumTileVectors; d += 16 * kSumTileVectors) {
    sum_rows<kRows, kSumTileVectors>(launch, scratch, pairs, row, d);
  }
  for (; d < launch.padded_dim; d += 16) sum_rows<kRows, 1>(launch, scratch, pairs, row, d);
}

/// scratch.part.out [num_rows] += weights * values of the pair. Keys that a row does not see have weight 0: codes are never NaN, and
/// adding 0 to integers is exact, so that all rows take all visible halves.
inline void sum_tile(const AttentionLaunch& launch, const PairsAhead& pairs, const AttentionScratch& scratch, std::int64_t num_rows) {
  code_weights(scratch, pairs.first_half, pairs.end_half, num_rows);
  gather_value_words(launch, scratch, pairs);
  int rows = 0;
  for (std::int64_t row = 0; row < num_rows; row += rows) {
    rows = next_tile_rows(num_rows - row, kSumTileRows);
    if constexpr (kSumTileRows >= 3) {
      if (rows == 3) sum_dims<3>(launch, scratch, pairs, row);
      if (rows == 2) sum_dims<2>(launch, scratch, pairs, row);
    }
    if (rows == 1) sum_dims<1>(launch, scratch, pairs, row);
  }
}

}  // namespace detail
#endif
