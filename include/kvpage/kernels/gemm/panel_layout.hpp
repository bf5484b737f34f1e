/// \file PanelLayout: where the codes and scales of 32 weight rows lie in a packed panel.
#pragma once

#include <kvpage/base/types.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Weight rows per panel: two halves of 16 lanes.
inline constexpr int kPanelRows = 32;

/// Memory of a packed matrix, in order [rows / 32 panels][cols / block steps], each step:
///
///     scales     [groups][32], half or float        (direct scales; then minima likewise)
///     or super scale half [32], super minimum half [32], factors u8/s8 [groups][32], minimum factors u8 [groups][32]
///     codes      [block / 32 sub-blocks][128 * code_bits bytes]
///
/// In a sub-block of 32 rows x 32 k, row r = 16h + lane and k = 4j + c:
///     8-bit codes   byte 128j + 64h + 4 lane + c
///     nibbles       byte 128(j % 4) + 64h + 4 lane + c, low nibble for j < 4, else high        (bits 0..3 of 4, 5, 6)
///     bit pairs     byte 128(j / 4) + 64h + 4 lane + c, bits 2(j % 4), +1                      (bits 0..1 of 2, 3; 4..5 of 6)
///     single bits   byte 64h + 4 lane + c, bit j                                               (bit 2 of 3; bit 4 of 5)
/// so that 64 bytes are 16 lanes of 4 consecutive k: the operand of a byte dot product, without a shuffle.
/// Every piece is a multiple of 64 bytes. Rows beyond the matrix have scale 0.
struct PanelLayout {
  PanelShape shape;

  constexpr int groups() const noexcept { return shape.groups(); }
  constexpr int scale_bytes() const noexcept { return shape.scale == PanelScale::kFloat ? 4 : 2; }
  /// Offset of the minima (direct scales), or of the super minima.
  constexpr int minimum_offset() const noexcept {
    return shape.has_super_scale() ? 2 * kPanelRows : groups() * scale_bytes() * kPanelRows;
  }
  /// Offset of the groups' factors (super scales only).
  constexpr int factor_offset() const noexcept { return shape.has_minimum ? 4 * kPanelRows : 2 * kPanelRows; }
  constexpr int minimum_factor_offset() const noexcept { return factor_offset() + groups() * kPanelRows; }
  constexpr int code_offset() const noexcept {
    const int parts = shape.has_minimum ? 2 : 1;
    const int bytes = shape.has_super_scale() ? parts * (2 + groups()) * kPanelRows : parts * groups() * scale_bytes() * kPanelRows;
    return (bytes + 63) / 64 * 64;
  }

  constexpr int sub_blocks() const noexcept { return shape.block / 32; }
  constexpr int sub_block_bytes() const noexcept { return 4 * kPanelRows * shape.code_bits; }
  constexpr int step_bytes() const noexcept { return code_offset() + sub_blocks() * sub_block_bytes(); }

  /// Planes of a sub-block; a plane's bits start at `low_bit` of the code.
  constexpr bool has_nibbles() const noexcept { return shape.code_bits >= 4 && shape.code_bits <= 6; }
  constexpr bool has_pairs() const noexcept { return shape.code_bits == 2 || shape.code_bits == 3 || shape.code_bits == 6; }
  constexpr bool has_singles() const noexcept { return shape.code_bits == 3 || shape.code_bits == 5; }
  constexpr int pair_offset() const noexcept { return shape.code_bits == 6 ? 512 : 0; }
  constexpr int pair_low_bit() const noexcept { return shape.code_bits == 6 ? 4 : 0; }
  constexpr int single_offset() const noexcept { return shape.code_bits == 5 ? 512 : 256; }
  constexpr int single_low_bit() const noexcept { return shape.code_bits == 5 ? 4 : 2; }
};

KVPAGE_END_NAMESPACE
