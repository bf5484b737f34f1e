/// \file Tiles of panels of codes. No include guard: cpu_panel_kernels.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/gemm/cpu_panel_kernels.hpp>
#else

/// Tile sizes that leave registers for the operands.
inline constexpr int kTileHalves = kLaneRegisters >= 32 ? 2 : 1;
inline constexpr int kMaxTileRows = kLaneRegisters >= 32 ? 6 : kLaneRegisters >= 8 ? 3 : 1;

namespace detail {
using kvpage::detail::TileInput;

/// To the left by kBits, or to the right by -kBits.
template <int kBits>
KVPAGE_LANES ByteLanes shift_bytes(ByteLanes a) {
  if constexpr (kBits >= 0) return shift_left_bytes<kBits>(a);
  if constexpr (kBits < 0) return shift_right_bytes<-kBits>(a);
}

/// Levels of quad kQuad (k = 4 kQuad ..) of the 16 rows of `half`, from the codes of a sub-block.
template <PanelShape kShape, int kQuad>
KVPAGE_LANES ByteLanes panel_levels(const std::byte* codes, int half) {
  constexpr PanelLayout kLayout{kShape};
  const std::byte* lanes = codes + 64 * half;
  if constexpr (kShape.code_bits == 8) return load_bytes(lanes + 128 * kQuad);
  ByteLanes level;
  if constexpr (kLayout.has_nibbles()) {
    const ByteLanes both = load_bytes(lanes + 128 * (kQuad % 4));
    level = and_bytes(kQuad < 4 ? both : shift_right_bytes<4>(both), broadcast_byte(15));
    if constexpr (kShape.has_levels) level = lookup_bytes(broadcast_table(&kShape.levels), level);
  }
  if constexpr (kLayout.has_pairs()) {
    const ByteLanes pairs = load_bytes(lanes + kLayout.pair_offset() + 128 * (kQuad / 4));
    constexpr int kShift = kLayout.pair_low_bit() - 2 * (kQuad % 4);
    const ByteLanes moved = shift_bytes<kShift>(pairs);
    const ByteLanes mask = broadcast_byte(3 << kLayout.pair_low_bit());
    level = kLayout.has_nibbles() ? merge_bytes(level, moved, mask) : and_bytes(moved, mask);
  }
  if constexpr (kLayout.has_singles()) {
    constexpr int kShift = kLayout.single_low_bit() - kQuad;
    const ByteLanes singles = load_bytes(lanes + kLayout.single_offset());
    const ByteLanes moved = shift_bytes<kShift>(singles);
    level = merge_bytes(level, moved, broadcast_byte(1 << kLayout.single_low_bit()));
  }
  return level;
}

/// Sums of one group, and how they are started so that the offset is taken out.
template <PanelShape kShape>
struct PanelDot {
  /// Beyond this the 16-bit pairs of avx2 would saturate with plain products.
  static constexpr bool kCentered = kShape.max_level() > 127;
  static constexpr int kStart = kCentered ? kCenteredStart + 128 - kShape.offset : -kShape.offset;

  /// Quads whose products can be summed in pairs of 16 bits, where that is faster; 0 = dot each quad.
  static constexpr int kPairQuads = kSumsPairs && !kCentered ? 32767 / (2 * 127 * kShape.max_level()) : 0;

  static KVPAGE_LANES void add(IntLanes& sum, ByteLanes levels, ByteLanes x) {
    sum = kCentered ? dot_centered(sum, levels, x) : dot_codes(sum, levels, x);
  }
};

/// The same where several quads share a sum of pairs.
struct PairDot {
  static KVPAGE_LANES void add(PairLanes& sum, ByteLanes levels, ByteLanes x) { sum = dot_pairs(sum, levels, x); }
};

/// One quad of all rows and halves of a tile.
template <PanelShape kShape, class Dot, int kQuad, class Lanes, int kRows, int kHalves>
KVPAGE_LANES void add_quad(const std::byte* codes, int first_half, const QuantizedGroup* const (&x)[kRows], Lanes (&sums)[kRows][kHalves]) {
  ByteLanes levels[kHalves];
  KVPAGE_UNROLL
  for (int h = 0; h < kHalves; ++h) levels[h] = panel_levels<kShape, kQuad>(codes, first_half + h);
  KVPAGE_UNROLL
  for (int m = 0; m < kRows; ++m) {
    const ByteLanes quad = broadcast_quad(x[m]->q + 4 * kQuad);
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) Dot::add(sums[m][h], levels[h], quad);
  }
}

/// Of the kCount quads from kFirst on, in the order in which they are read, those with numbers kAt .. kEnd - 1.
template <PanelShape kShape, class Dot, int kFirst, int kCount, int kAt, int kEnd, class Lanes, int kRows, int kHalves>
KVPAGE_LANES void add_quads(const std::byte* codes, int first_half, const QuantizedGroup* const (&x)[kRows],
                            Lanes (&sums)[kRows][kHalves]) {
  if constexpr (kAt < kEnd) {
    // Nibbles: a quad and the one four further share their bytes. Else ascending, as memory is read fastest.
    constexpr bool kShared = kCount == 8 && PanelLayout{kShape}.has_nibbles();
    constexpr int kQuad = kShared ? kAt / 2 + kAt % 2 * 4 : kFirst + kAt;
    add_quad<kShape, Dot, kQuad>(codes, first_half, x, sums);
    add_quads<kShape, Dot, kFirst, kCount, kAt + 1, kEnd>(codes, first_half, x, sums);
  }
}

/// All of them from number kAt on with sums of pairs, as many quads at a time as those hold.
template <PanelShape kShape, int kFirst, int kCount, int kAt, int kRows, int kHalves>
KVPAGE_LANES void add_quads_in_pairs(const std::byte* codes, int first_half, const QuantizedGroup* const (&x)[kRows],
                                     IntLanes (&sums)[kRows][kHalves]) {
  if constexpr (kAt < kCount) {
    constexpr int kEnd = kAt + PanelDot<kShape>::kPairQuads < kCount ? kAt + PanelDot<kShape>::kPairQuads : kCount;
    PairLanes pairs[kRows][kHalves];
    KVPAGE_UNROLL
    for (int m = 0; m < kRows; ++m) {
      KVPAGE_UNROLL
      for (int h = 0; h < kHalves; ++h) pairs[m][h] = zero_pairs();
    }
    add_quads<kShape, PairDot, kFirst, kCount, kAt, kEnd>(codes, first_half, x, pairs);
    KVPAGE_UNROLL
    for (int m = 0; m < kRows; ++m) {
      KVPAGE_UNROLL
      for (int h = 0; h < kHalves; ++h) sums[m][h] = add_pairs(sums[m][h], pairs[m][h]);
    }
    add_quads_in_pairs<kShape, kFirst, kCount, kEnd>(codes, first_half, x, sums);
  }
}

/// The scales of a group for 16 rows, from its row of scales. `super`: the super scales of these rows.
template <PanelShape kShape>
KVPAGE_LANES FloatLanes panel_scale(const std::byte* scales, FloatLanes super) {
  if constexpr (kShape.scale == PanelScale::kSuperSigned) {
    return mul(super, to_float(load_s8(reinterpret_cast<const std::int8_t*>(scales))));
  } else if constexpr (kShape.scale == PanelScale::kSuperUnsigned) {
    return mul(super, to_float(load_u8(reinterpret_cast<const std::uint8_t*>(scales))));
  } else if constexpr (kShape.scale == PanelScale::kFloat) {
    return load(reinterpret_cast<const float*>(scales));
  } else {
    return load_half(reinterpret_cast<const std::uint16_t*>(scales));
  }
}

/// The same for minima.
template <PanelShape kShape>
KVPAGE_LANES FloatLanes panel_minimum(const std::byte* minima, FloatLanes super) {
  if constexpr (kShape.has_super_scale()) return mul(super, to_float(load_u8(reinterpret_cast<const std::uint8_t*>(minima))));
  if constexpr (kShape.scale == PanelScale::kFloat) return load(reinterpret_cast<const float*>(minima));
  return load_half(reinterpret_cast<const std::uint16_t*>(minima));
}

/// What the sub-blocks of a step share: the super scales and minima of a tile's halves.
template <PanelShape kShape, int kHalves>
struct StepScales {
  FloatLanes scale[kHalves];
  FloatLanes minimum[kHalves];

  static KVPAGE_LANES StepScales load(const std::byte* step, int first_half) {
    StepScales out;
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      const auto* halves = reinterpret_cast<const std::uint16_t*>(step) + 16 * (first_half + h);
      out.scale[h] = kShape.has_super_scale() ? load_half(halves) : zero();
      out.minimum[h] = kShape.has_super_scale() && kShape.has_minimum ? load_half(halves + kPanelRows) : zero();
    }
    return out;
  }
};

/// What one group of activations contributes: quads kFirst .. kFirst + kCount - 1.
/// The float law: sum = fma(t, scale * d, sum), then sum = fma(minimum, d_sum, sum); t is exact.
template <PanelShape kShape, int kRows, int kHalves, int kFirst, int kCount>
KVPAGE_LANES void add_group(const StepScales<kShape, kHalves>& super, const std::byte* scales, const std::byte* codes, int first_half,
                            const QuantizedGroup* const (&x)[kRows], FloatLanes (&sums)[kRows][kHalves]) {
  constexpr PanelLayout kLayout{kShape};
  constexpr bool kWhole = kCount == 8;
  // Tiles of few rows wait for memory, which is fastest in ascending order: the scales lie before the codes.
  constexpr bool kScalesFirst = kRows <= 2;
  FloatLanes scale[kHalves];
  IntLanes dots[kRows][kHalves];
  KVPAGE_UNROLL
  for (int h = 0; h < kHalves && kScalesFirst; ++h) {
    scale[h] = panel_scale<kShape>(scales + kLayout.scale_row_bytes() / 2 * (first_half + h), super.scale[h]);
  }
  KVPAGE_UNROLL
  for (int m = 0; m < kRows; ++m) {
    const std::int32_t x_sum = kWhole ? x[m]->sum : kFirst == 0 ? x[m]->sum_low : x[m]->sum - x[m]->sum_low;
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      dots[m][h] = PanelDot<kShape>::kStart == 0 ? zero_int() : broadcast_int(PanelDot<kShape>::kStart * x_sum);
    }
  }
  if constexpr (PanelDot<kShape>::kPairQuads >= 2) {
    add_quads_in_pairs<kShape, kFirst, kCount, 0>(codes, first_half, x, dots);
  } else {
    add_quads<kShape, PanelDot<kShape>, kFirst, kCount, 0, kCount>(codes, first_half, x, dots);
  }
  FloatLanes minimum[kHalves];
  KVPAGE_UNROLL
  for (int h = 0; h < kHalves; ++h) {
    const std::byte* half_scales = scales + kLayout.scale_row_bytes() / 2 * (first_half + h);
    if constexpr (!kScalesFirst) scale[h] = panel_scale<kShape>(half_scales, super.scale[h]);
    if constexpr (kShape.has_minimum) minimum[h] = panel_minimum<kShape>(half_scales + kLayout.minimum_distance(), super.minimum[h]);
  }
  KVPAGE_UNROLL
  for (int m = 0; m < kRows; ++m) {
    const FloatLanes d = broadcast(x[m]->d);
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) sums[m][h] = fma(to_float(dots[m][h]), mul(scale[h], d), sums[m][h]);
    if constexpr (kShape.has_minimum) {
      const std::int32_t x_sum = kFirst == 0 ? x[m]->sum_low : x[m]->sum - x[m]->sum_low;
      const FloatLanes d_sum = broadcast(kWhole ? x[m]->d_sum : x[m]->d * static_cast<float>(x_sum));
      KVPAGE_UNROLL
      for (int h = 0; h < kHalves; ++h) sums[m][h] = fma(minimum[h], d_sum, sums[m][h]);
    }
  }
}

/// Tiles of fewer rows wait for memory anyway, and then the processor's own prefetchers do better alone.
inline constexpr int kMinAheadRows = 3;

/// Asks for as many lines as a sub-block has.
template <PanelShape kShape>
KVPAGE_LANES void ask_ahead(const std::byte* ahead) {
  constexpr int kBytes = PanelLayout{kShape}.sub_block_bytes();
  KVPAGE_UNROLL
  for (int i = 0; i < kBytes; i += 64) prefetch(ahead + i);
}

/// kRows activation rows against kHalves halves of a panel; the contract is PanelTile.
template <PanelShape kShape, int kRows, int kHalves>
inline void code_tile(const std::byte* step, std::int64_t num_steps, const TileInput& input, int half, float* out, bool fresh) {
  const int first_half = kHalves == 2 ? 0 : half;  // as a constant it costs no pointer
  constexpr PanelLayout kLayout{kShape};
  const QuantizedGroup* x[kRows];
  const std::byte* ahead = input.ahead;
  FloatLanes sums[kRows][kHalves];
  KVPAGE_UNROLL
  for (int m = 0; m < kRows; ++m) {
    x[m] = input.groups + m * input.row_groups;
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) sums[m][h] = fresh ? zero() : load(out + kPanelRows * m + 16 * (first_half + h));
  }
  const std::int64_t ahead_stride = input.ahead_stride;
  // One pointer counts the loop and finds the codes: with more, general registers run out and are kept on the stack.
  for (const std::byte* const end = step + num_steps * kLayout.step_bytes(); step != end; step += kLayout.step_bytes()) {
    const auto super = StepScales<kShape, kHalves>::load(step, first_half);
    for (int b = 0; b < kLayout.sub_blocks(); ++b) {
      const std::byte* codes = step + kLayout.code_offset(0) + b * kLayout.sub_block_bytes();
      if constexpr (kRows >= kMinAheadRows) {
        ask_ahead<kShape>(ahead);
        ahead += ahead_stride;
      }
      constexpr int kLocal = kLayout.sub_block_scale_bytes();
      const std::byte* scales = kLocal != 0 ? codes - kLocal : step + kLayout.scale_offset(32 * b / kShape.group);
      if constexpr (kShape.group == 16) {
        add_group<kShape, kRows, kHalves, 0, 4>(super, scales, codes, first_half, x, sums);
        add_group<kShape, kRows, kHalves, 4, 4>(super, scales + kLayout.scale_row_bytes(), codes, first_half, x, sums);
      } else {
        add_group<kShape, kRows, kHalves, 0, 8>(super, scales, codes, first_half, x, sums);
      }
      KVPAGE_UNROLL
      for (int m = 0; m < kRows; ++m) ++x[m];
    }
  }
  KVPAGE_UNROLL
  for (int m = 0; m < kRows; ++m) {
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) store(out + kPanelRows * m + 16 * (first_half + h), sums[m][h]);
  }
}
}  // namespace detail

/// The contract is PanelTile: picks the instance for the number of rows.
template <PanelShape kShape, int kRows = kMaxTileRows>
inline void panel_tile(const std::byte* steps, std::int64_t num_steps, const kvpage::detail::TileInput& input, int num_rows, float* sums,
                       bool fresh) {
  if constexpr (kRows > 1) {
    if (num_rows < kRows) return panel_tile<kShape, kRows - 1>(steps, num_steps, input, num_rows, sums, fresh);
  }
  for (int half = 0; half < 2; half += kTileHalves) {
    detail::code_tile<kShape, kRows, kTileHalves>(steps, num_steps, input, half, sums, fresh);
  }
}
#endif
