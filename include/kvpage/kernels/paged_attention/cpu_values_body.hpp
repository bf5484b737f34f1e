/// \file Weighted sums of two steps' values into a tile's rows, straight from the codes of the page.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

/// Where the values of a pair are: half `h` starts at values[h]; `params` [params, 64] are decoded (kScaledDims only).
struct ValueSource {
  const PairsAhead* pairs;
  std::int64_t stride;
  std::int64_t padded_dim;
  const float* params;
};

/// 16 codes from dim `d` on of the value at `codes`, less their offset.
template <class Value>
KVPAGE_LANES IntLanes load_value_codes(const ValueSource& source, const std::byte* codes, std::int64_t d) {
  IntLanes code;
  if constexpr (Value::kBits == 4) {
    const std::int64_t half = source.padded_dim / 2;
    const IntLanes pair = load_u8(reinterpret_cast<const std::uint8_t*>(codes) + (d >= half ? d - half : d));
    code = d >= half ? shift_right_int<4>(pair) : and_int(pair, broadcast_int(15));
  } else if constexpr (std::is_signed_v<typename Value::Code>) {
    code = load_s8(reinterpret_cast<const std::int8_t*>(codes) + d);
  } else {
    code = load_u8(reinterpret_cast<const std::uint8_t*>(codes) + d);
  }
  if constexpr (Value::kScaling.offset != 0) code = sub_int(code, broadcast_int(Value::kScaling.offset));
  return code;
}

/// 16 dims from dim `d` on of the value at `codes`, token `t` of the pair. One scale per vector is in the weights already.
template <class Value>
KVPAGE_LANES FloatLanes load_value(const ValueSource& source, const std::byte* codes, std::int64_t t, std::int64_t d) {
  if constexpr (kScaledDims<Value>) {
    constexpr int kParams = Value::kScaling.has_minimum ? 2 : 1;
    const FloatLanes code = to_float(load_value_codes<Value>(source, codes, d));
    const std::int64_t group = Value::kScaling.group_dims == 0 ? 0 : d / Value::kScaling.group_dims;
    const float* params = source.params + kParams * group * kAttentionPairTokens + t;
    if constexpr (kParams == 1) return mul(code, broadcast(params[0]));
    return fma(code, broadcast(params[0]), broadcast(params[kAttentionPairTokens]));
  } else if constexpr (kScaledVectors<Value>) {
    return to_float(load_value_codes<Value>(source, codes, d));
  } else {
    return load_plain<Value>(codes + d * Value::kBits / 8);
  }
}

/// out [kRows, 16 * kVectors] += sum over t in [begin, end) of weights [kRows, 64] * value, t ascending.
template <class Value, int kRows, int kVectors>
inline void accumulate_rows(const ValueSource& source, std::int64_t begin, std::int64_t end, std::int64_t d, const float* weights,
                            float* out, std::int64_t out_stride) {
  FloatLanes acc[kRows][kVectors];
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVPAGE_UNROLL
    for (int j = 0; j < kVectors; ++j) acc[r][j] = load(out + r * out_stride + 16 * j);
  }
  for (std::int64_t half = begin / 16; half * 16 < end; ++half) {
    const std::int64_t first = begin > half * 16 ? begin : half * 16;
    const std::int64_t last = end < half * 16 + 16 ? end : half * 16 + 16;
    std::int64_t offset = first % 16 * source.stride;
    for (std::int64_t t = first; t < last; ++t, offset += source.stride) {
      const std::int64_t line = offset + d * Value::kBits / 8;
      KVPAGE_UNROLL
      for (int byte = 0; byte < 16 * kVectors * Value::kBits / 8; byte += 64) {
        prefetch_line(source.pairs->next.values[half] + line + byte, source.pairs->later.values[half] + line + byte);
      }
      FloatLanes value[kVectors];
      KVPAGE_UNROLL
      for (int j = 0; j < kVectors; ++j) value[j] = load_value<Value>(source, source.pairs->now.values[half] + offset, t, d + 16 * j);
      KVPAGE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const FloatLanes weight = broadcast(weights[r * kAttentionPairTokens + t]);
        KVPAGE_UNROLL
        for (int j = 0; j < kVectors; ++j) acc[r][j] = fma(weight, value[j], acc[r][j]);
      }
    }
  }
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVPAGE_UNROLL
    for (int j = 0; j < kVectors; ++j) store(out + r * out_stride + 16 * j, acc[r][j]);
  }
}

/// accumulate_rows over all dims.
template <class Value, int kRows>
inline void accumulate_dims(const AttentionLaunch& launch, const ValueSource& source, std::int64_t begin, std::int64_t end,
                            const float* weights, float* out) {
  constexpr int kVectors = kScoreTileRows >= 6 ? 4 : 2;
  std::int64_t d = 0;
  for (; launch.padded_dim - d >= 16 * kVectors; d += 16 * kVectors) {
    accumulate_rows<Value, kRows, kVectors>(source, begin, end, d, weights, out + d, launch.padded_dim);
  }
  for (; d < launch.padded_dim; d += 16) {
    accumulate_rows<Value, kRows, 1>(source, begin, end, d, weights, out + d, launch.padded_dim);
  }
}

/// `kRows` rows from `row` on. Keys that not all of them see are added row by row, before and after the common part: a key
/// beyond a row's limit is never multiplied, and every row adds its keys in ascending order.
template <class Value, int kRows>
inline void accumulate_group(const AttentionLaunch& launch, const ValueSource& source, std::int64_t row, const AttentionScratch& scratch,
                             bool masked) {
  const float* weights = scratch.scores + row * kAttentionPairTokens;
  float* out = scratch.part.out + row * launch.padded_dim;
  if (!masked) {
    accumulate_dims<Value, kRows>(launch, source, 16 * source.pairs->first_half, 16 * source.pairs->end_half, weights, out);
    return;
  }
  const VisibleKeys* visible = scratch.visible + row;
  VisibleKeys common = visible[0];
  for (int r = 1; r < kRows; ++r) {
    const VisibleKeys keys = visible[r];
    common.begin = keys.begin > common.begin ? keys.begin : common.begin;
    common.end = keys.end < common.end ? keys.end : common.end;
  }
  if (common.end < common.begin) common.end = common.begin;
  for (int r = 0; r < kRows && kRows > 1; ++r) {
    const VisibleKeys keys = visible[r];
    const std::int32_t end = keys.end < common.begin ? keys.end : common.begin;
    if (keys.begin < end) {
      accumulate_dims<Value, 1>(launch, source, keys.begin, end, weights + r * kAttentionPairTokens, out + r * launch.padded_dim);
    }
  }
  if (common.begin < common.end) accumulate_dims<Value, kRows>(launch, source, common.begin, common.end, weights, out);
  for (int r = 0; r < kRows && kRows > 1; ++r) {
    const VisibleKeys keys = visible[r];
    const std::int32_t begin = keys.begin > common.end ? keys.begin : common.end;
    if (begin < keys.end) {
      accumulate_dims<Value, 1>(launch, source, begin, keys.end, weights + r * kAttentionPairTokens, out + r * launch.padded_dim);
    }
  }
}

/// Rows [0, num_rows).
template <class Value>
inline void accumulate_tile(const AttentionLaunch& launch, const ValueSource& source, const AttentionScratch& scratch, bool masked,
                            std::int64_t num_rows) {
  int rows = 0;
  for (std::int64_t row = 0; row < num_rows; row += rows) {
    rows = next_tile_rows(num_rows - row, kScoreTileRows);
    if constexpr (kScoreTileRows >= 6) {
      if (rows == 6) accumulate_group<Value, 6>(launch, source, row, scratch, masked);
      if (rows == 4) accumulate_group<Value, 4>(launch, source, row, scratch, masked);
    }
    if constexpr (kScoreTileRows >= 3) {
      if (rows == 3) accumulate_group<Value, 3>(launch, source, row, scratch, masked);
      if (rows == 2) accumulate_group<Value, 2>(launch, source, row, scratch, masked);
    }
    if (rows == 1) accumulate_group<Value, 1>(launch, source, row, scratch, masked);
  }
}

}  // namespace detail
#endif
