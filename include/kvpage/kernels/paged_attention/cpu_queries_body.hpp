/// \file A tile's queries as the scores read them: scaled, padded, by register tile, and coded for integer dots.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

/// Codes of one rotated query row: x = scale * (128 * high + low), |high| <= 127, -64 <= low <= 63. 15 bits, so that the
/// query adds no error beside the keys' 8 bits. NaN and infinity end in the scale.
template <class Key>
inline void code_query(const AttentionLaunch& launch, const AttentionScratch& scratch, const TileCursor& place, std::int64_t row,
                       const float* x) {
  constexpr float kLargestCode = 127.0f * 128.0f;
  IntLanes bits = zero_int();
  for (std::int64_t d = 0; d < launch.padded_dim; d += 16) bits = max_int(bits, bits_of(abs(load(x + d))));
  const float largest = __builtin_bit_cast(float, reduce_max_int(bits));
  const bool codable = largest >= 0x1p-100f && largest <= 0x1.fffffep127f;
  const FloatLanes inverse = broadcast(codable ? kLargestCode / largest : 0.0f);
  scratch.q_scale[row] = codable ? largest / kLargestCode : (largest < 0x1p-100f ? 0.0f : __builtin_nanf(""));
  const std::int64_t word_stride = 8 * place.rows;
  std::int8_t* codes = scratch.q_codes + 2 * place.begin * launch.padded_dim + 8 * (row - place.begin);
  // 8-bit dots take 128 from every code already.
  constexpr std::int32_t kStart = (Key::kBits == 8 ? kCenteredStart + 128 : 0) - Key::kScaling.offset;
  const std::int64_t num_groups = Key::kScaling.num_groups(launch.padded_dim);
  const std::int64_t group_dims = Key::kScaling.group_dims == 0 ? launch.padded_dim : Key::kScaling.group_dims;
  for (std::int64_t g = 0; g < num_groups; ++g) {
    IntLanes high_sums = zero_int();
    IntLanes low_sums = zero_int();
    for (std::int64_t d = g * group_dims; d < (g + 1) * group_dims && d < launch.padded_dim; d += 16) {
      const IntLanes code = codable ? round_to_int(mul(load(x + d), inverse)) : zero_int();
      const IntLanes upper = shift_right_int<7>(add_int(code, broadcast_int(64)));
      const IntLanes lower = sub_int(code, shift_left_int<7>(upper));
      std::int8_t parts[2][16];
      store_s8(parts[0], upper);
      store_s8(parts[1], lower);
      for (int word = 0; word < 4; ++word, codes += word_stride) {
        __builtin_memcpy(codes, parts[0] + 4 * word, 4);
        __builtin_memcpy(codes + 4, parts[1] + 4 * word, 4);
      }
      high_sums = add_int(high_sums, upper);
      low_sums = add_int(low_sums, lower);
    }
    const std::int32_t high_sum = reduce_add_int(high_sums);
    const std::int32_t low_sum = reduce_add_int(low_sums);
    const std::int64_t at = row * num_groups + g;
    scratch.q_group_sum[at] = scratch.q_scale[row] * static_cast<float>(128 * high_sum + low_sum);
    scratch.q_start[2 * at] = kStart * high_sum;
    scratch.q_start[2 * at + 1] = kStart * low_sum;
  }
}

/// Scaled, padded queries of a tile's rows, to rows from `first_row` on, of `num_rows` in all; for integer dots also coded, and
/// rotated as the keys are.
template <class Key, Element Q>
inline void prepare_queries(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch,
                            std::int64_t first_row, std::int64_t num_rows) {
  TileCursor place{num_rows, kScoreTileRows};
  for (std::int64_t i = 0; i < tile.num_tokens * launch.group; ++i) {
    const Stored<Q>* q = static_cast<const Stored<Q>*>(tile.q) + i / launch.group * launch.q_stride + i % launch.group * launch.head_dim;
    const std::int64_t row = first_row + i;
    place.move_to(row);
    // Integer dots need whole rows here, to be rotated and coded; float scores broadcast the rows of a register tile dim by dim.
    const std::int64_t stride = kIntegerDots<Key> ? 1 : place.rows;
    float* scaled = scratch.scaled_q + (kIntegerDots<Key> ? row * launch.padded_dim : place.begin * launch.padded_dim + row - place.begin);
    for (std::int64_t d = 0; d < launch.head_dim; ++d) scaled[d * stride] = ElementCodec<Q>::decode(q[d]) * launch.score_scale;
    for (std::int64_t d = launch.head_dim; d < launch.padded_dim; ++d) scaled[d * stride] = 0.0f;
    if (launch.keeps_query_rows && launch.key_bias.bias != nullptr) {
      float* whole = scratch.query_rows + row * launch.padded_dim;
      for (std::int64_t d = 0; d < launch.padded_dim; ++d) whole[d] = scaled[d * stride];
    }
    if constexpr (kIntegerDots<Key>) {
      float* rotated = scratch.turned_bias;
      for (std::int64_t d = 0; d < launch.padded_dim; d += 16) store(rotated + d, load(scaled + d));
      if (Key::kRotated) rotate_row<false>(rotated, launch.head_dim);
      code_query<Key>(launch, scratch, place, row, rotated);
    }
  }
}

}  // namespace detail
#endif
