/// \file Scores of a tile's rows against the keys of two steps, straight from the codes of the page.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

using kvpage::detail::AttentionLaunch;
using kvpage::detail::AttentionPair;
using kvpage::detail::AttentionRows;
using kvpage::detail::AttentionScratch;
using kvpage::detail::AttentionTile;
using kvpage::detail::VisibleKeys;
using kvpage::detail::kCodesAreHalf;
using kvpage::detail::kCodesAreUpperHalf;
using kvpage::detail::kIntegerDots;
using kvpage::detail::kScaledDims;
using kvpage::detail::kScaledVectors;
using kvpage::detail::kSmallExponentBits;

/// Lanes that take two registers leave room for fewer rows.
template <class L>
concept TwoRegisterLanes = requires(L lanes) { lanes.lo; };
template <class L>
concept LoopedLanes = std::is_array_v<decltype(L::v)>;
/// Rows of a register tile: lanes in one register, in two, or (plain loops) in none.
inline constexpr int kScoreTileRows = LoopedLanes<FloatLanes> ? 1 : (TwoRegisterLanes<FloatLanes> ? 3 : 6);
/// Halves of a pair that one register tile takes: all where 32 registers hold 24 sums, else one step's.
inline constexpr int kScoreTileHalves = kScoreTileRows >= 6 ? 4 : 2;

/// Rows of the next register tile when `rest` rows are left: the most of those compiled that leave no single row behind, as one
/// row alone waits for its own chain of additions.
KVPAGE_LANES int next_tile_rows(std::int64_t rest, int most) {
  for (const int rows : {6, 4, 3, 2}) {
    if (rows <= most && rows <= rest && rest - rows != 1) return rows;
  }
  return 1;
}

/// Finds the register tile of a row, for rows in ascending order.
struct TileCursor {
  std::int64_t num_rows;
  int most;
  std::int64_t begin = 0;
  int rows = next_tile_rows(num_rows, most);

  void move_to(std::int64_t row) {
    while (row >= begin + rows) {
      begin += rows;
      rows = next_tile_rows(num_rows - begin, most);
    }
  }
};

/// 16 values of a plain format, from its codes; in units of kLoadedUnit.
template <class Codec>
KVPAGE_LANES FloatLanes load_plain(const std::byte* codes) {
  using Code = typename Codec::Code;
  if constexpr (std::is_same_v<Code, float>) {
    return load(reinterpret_cast<const float*>(codes));
  } else if constexpr (kCodesAreHalf<Codec>) {
    return load_half(reinterpret_cast<const std::uint16_t*>(codes));
  } else if constexpr (kCodesAreUpperHalf<Codec>) {
    return load_bfloat(reinterpret_cast<const std::uint16_t*>(codes));
  } else if constexpr (kSmallExponentBits<Codec> != 0) {
    return load_small_float<kSmallExponentBits<Codec>>(reinterpret_cast<const std::uint8_t*>(codes));
  } else {
    float values[16];
    for (int i = 0; i < 16; ++i) values[i] = Codec::decode(reinterpret_cast<const Code*>(codes)[i], nullptr, 0);
    return load(values);
  }
}

/// The current pair of steps and the two after it (or again the last one); first_half and end_half bound the halves of the
/// current one that hold visible keys, by whole steps: 0 or 2, and 2 or 4. Pages lie anywhere, so
/// nothing but the block table knows what comes next: the second next pair is fetched into L2, the next one from there into L1.
struct PairsAhead {
  AttentionPair now, next, later;
  int first_half, end_half;
};

KVPAGE_LANES void prefetch_line(const std::byte* next, const std::byte* later) {
  prefetch(next);
  __builtin_prefetch(later, 0, 2);
}

/// scores [kRows, 16 * kHalves] of plain keys and q [padded_dim, kRows]: per key one chain of fused multiply-adds over the dims,
/// ascending.
template <class Key, int kRows, int kHalves>
inline void score_rows_plain(const AttentionLaunch& launch, const PairsAhead& pairs, int first_half, const float* q, float* scores) {
  FloatLanes acc[kRows][kHalves];
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) acc[r][h] = zero();
  }
  const std::int64_t end = launch.padded_dim * launch.key_stride;
  for (std::int64_t offset = 0; offset < end; offset += launch.key_stride, q += kRows) {
    FloatLanes k[kHalves];
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      prefetch_line(pairs.next.keys[first_half + h] + offset, pairs.later.keys[first_half + h] + offset);
      k[h] = load_plain<Key>(pairs.now.keys[first_half + h] + offset);
    }
    KVPAGE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes x = broadcast(q[r]);
      KVPAGE_UNROLL
      for (int h = 0; h < kHalves; ++h) acc[r][h] = fma(x, k[h], acc[r][h]);
    }
  }
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) store(scores + r * kAttentionPairTokens + 16 * (first_half + h), acc[r][h]);
  }
}

/// What a row of integer-coded queries needs: q = scale * (128 * high + low), two exact integer dots per key and group.
struct CodedQueries {
  const std::int8_t* codes;   // [padded_dim / 4, rows, {high, low}, 4]
  const float* scale;         // [rows]
  const std::int32_t* start;  // [rows, groups, 2]
  const float* group_sum;     // [rows, groups]
};

/// One word of four dims of one key half, as bytes.
template <class Key>
KVPAGE_LANES ByteLanes load_key_word(const std::byte* codes, bool upper) {
  const ByteLanes bytes = load_bytes(codes);
  if constexpr (Key::kBits == 8) return bytes;
  return and_bytes(upper ? shift_right_bytes<4>(bytes) : bytes, broadcast_byte(15));
}

template <class Key>
KVPAGE_LANES IntLanes dot_key_word(IntLanes sum, ByteLanes codes, ByteLanes x) {
  return Key::kBits == 8 ? dot_centered(sum, codes, x) : dot_codes(sum, codes, x);
}

/// Adds the integer dots of words [begin, end), a multiple of 4, of `kRows` queries with `kHalves` halves of a pair.
template <class Key, int kRows, int kHalves>
KVPAGE_LANES void add_key_words(const AttentionLaunch& launch, const PairsAhead& pairs, int first_half, const CodedQueries& q,
                                std::int64_t begin, std::int64_t end, IntLanes (&high)[kRows][kHalves], IntLanes (&low)[kRows][kHalves]) {
  const std::int64_t split = launch.padded_dim / 8;  // 4-bit words from here on are high nibbles
  const std::int8_t* x = q.codes + begin * 8 * kRows;
  for (std::int64_t first = begin; first < end; first += 4) {
    KVPAGE_UNROLL  // sums that a short loop carries are copied, and kept on the stack, in every turn of it
    for (int i = 0; i < 4; ++i, x += 8 * kRows) {
      const std::int64_t word = first + i;
      const bool upper = Key::kBits == 4 && word >= split;
      const std::int64_t offset = (upper ? word - split : word) * launch.key_stride;
      ByteLanes k[kHalves];
      KVPAGE_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        prefetch_line(pairs.next.keys[first_half + h] + offset, pairs.later.keys[first_half + h] + offset);
        k[h] = load_key_word<Key>(pairs.now.keys[first_half + h] + offset, upper);
      }
      KVPAGE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const ByteLanes x_high = broadcast_quad(x + 8 * r);
        const ByteLanes x_low = broadcast_quad(x + 8 * r + 4);
        KVPAGE_UNROLL
        for (int h = 0; h < kHalves; ++h) {
          high[r][h] = dot_key_word<Key>(high[r][h], k[h], x_high);
          low[r][h] = dot_key_word<Key>(low[r][h], k[h], x_low);
        }
      }
    }
  }
}

/// scores [kRows, 16 * kHalves] of integer codes: per group of dims an exact integer dot, then the group's scale and minimum.
template <class Key, int kRows, int kHalves>
inline void score_rows_coded(const AttentionLaunch& launch, const PairsAhead& pairs, int first_half, const CodedQueries& q, float* scores) {
  constexpr bool kOneGroup = Key::kScaling.group_dims == 0;
  constexpr int kParams = Key::kScaling.has_minimum ? 2 : 1;
  const std::int64_t num_words = launch.padded_dim / 4;
  const std::int64_t num_groups = Key::kScaling.num_groups(launch.padded_dim);
  const std::int64_t group_words = kOneGroup ? num_words : Key::kScaling.group_dims / 4;
  FloatLanes acc[kRows][kHalves];
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) acc[r][h] = zero();
  }
  for (std::int64_t g = 0; g < num_groups; ++g) {
    IntLanes high[kRows][kHalves];
    IntLanes low[kRows][kHalves];
    KVPAGE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      KVPAGE_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        high[r][h] = broadcast_int(q.start[2 * (r * num_groups + g)]);
        low[r][h] = broadcast_int(q.start[2 * (r * num_groups + g) + 1]);
      }
    }
    const std::int64_t end = kOneGroup || (g + 1) * group_words > num_words ? num_words : (g + 1) * group_words;
    add_key_words<Key, kRows, kHalves>(launch, pairs, first_half, q, g * group_words, end, high, low);
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      const std::uint16_t* params = pairs.now.key_params[first_half + h] + kParams * g * launch.param_stride;
      const FloatLanes key_scale = load_half(params);
      KVPAGE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const FloatLanes dot = to_float(add_int(shift_left_int<7>(high[r][h]), low[r][h]));
        const FloatLanes scale = mul(broadcast(q.scale[r]), key_scale);
        acc[r][h] = kOneGroup ? mul(dot, scale) : fma(dot, scale, acc[r][h]);
        if constexpr (Key::kScaling.has_minimum) {
          acc[r][h] = fma(broadcast(q.group_sum[r * num_groups + g]), load_half(params + launch.param_stride), acc[r][h]);
        }
      }
    }
  }
  KVPAGE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) store(scores + r * kAttentionPairTokens + 16 * (first_half + h), acc[r][h]);
  }
}

/// Runs `kRows` rows from `row` on, in the arithmetic that the keys' codec asks for.
template <class Key, int kRows>
inline void score_rows(const AttentionLaunch& launch, const PairsAhead& pairs, const AttentionScratch& scratch, std::int64_t row) {
  float* scores = scratch.scores + row * kAttentionPairTokens;
  const std::int64_t at = row * launch.padded_dim;
  if constexpr (!kIntegerDots<Key>) {
    const float* q = scratch.scaled_q + at;
    if constexpr (kScoreTileHalves == 4) {
      if (pairs.end_half - pairs.first_half == 4) return score_rows_plain<Key, kRows, 4>(launch, pairs, 0, q, scores);
    }
    for (int half = pairs.first_half; half < pairs.end_half; half += 2) score_rows_plain<Key, kRows, 2>(launch, pairs, half, q, scores);
  } else {
    const std::int64_t num_groups = Key::kScaling.num_groups(launch.padded_dim);
    const CodedQueries q{scratch.q_codes + 2 * at, scratch.q_scale + row, scratch.q_start + 2 * row * num_groups,
                         scratch.q_group_sum + row * num_groups};
    // Unpacking nibbles takes registers: then one half at a time.
    constexpr int kHalves = Key::kBits == 4 ? 1 : 2;
    for (int half = pairs.first_half; half < pairs.end_half; half += kHalves) {
      score_rows_coded<Key, kRows, kHalves>(launch, pairs, half, q, scores);
    }
  }
}

/// Scores of rows [0, num_rows).
template <class Key>
inline void score_tile(const AttentionLaunch& launch, const PairsAhead& pairs, const AttentionScratch& scratch, std::int64_t num_rows) {
  int rows = 0;
  for (std::int64_t row = 0; row < num_rows; row += rows) {
    rows = next_tile_rows(num_rows - row, kScoreTileRows);
    if constexpr (kScoreTileRows >= 6) {
      if (rows == 6) score_rows<Key, 6>(launch, pairs, scratch, row);
      if (rows == 4) score_rows<Key, 4>(launch, pairs, scratch, row);
    }
    if constexpr (kScoreTileRows >= 3) {
      if (rows == 3) score_rows<Key, 3>(launch, pairs, scratch, row);
      if (rows == 2) score_rows<Key, 2>(launch, pairs, scratch, row);
    }
    if (rows == 1) score_rows<Key, 1>(launch, pairs, scratch, row);
  }
}

}  // namespace detail
#endif
