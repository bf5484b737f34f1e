/// \file PanelLayout: where the codes and scales of 32 weight rows lie in a packed panel.
#pragma once

#include <kvpage/base/types.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Weight rows per panel: two halves of 16 lanes.
inline constexpr int kPanelRows = 32;

/// Changes with the meaning of any byte of a packed matrix: what was written to disk under another number must not be read.
inline constexpr int kPanelLayoutVersion = 2;

/// Memory of a packed matrix, in order [rows / 32 panels][cols / block steps], each step:
///
///     super scales half [32], super minima half [32]        (those that the shape has)
///     scales [groups][32], minima [groups][32]              (only if they do not lie with the sub-blocks)
///     sub-blocks [block / 32]: scales [its groups][32], minima [its groups][32], codes [128 * code_bits bytes]
///
/// where scales and minima are halves or floats, or with super scales their factors, one byte each. They lie with their
/// sub-block when it has groups of its own and they fill whole cache lines: then a panel is read in one ascending stream,
/// which is what the prefetchers of processors follow.
/// In a sub-block of 32 rows x 32 k, row r = 16h + lane and k = 4j + c:
///     8-bit codes   byte 128j + 64h + 4 lane + c
///     nibbles       byte 128(j % 4) + 64h + 4 lane + c, low nibble for j < 4, else high        (bits 0..3 of 4, 5, 6)
///     bit pairs     byte 128(j / 4) + 64h + 4 lane + c, bits 2(j % 4), +1                      (bits 0..1 of 2, 3; 4..5 of 6)
///     single bits   byte 64h + 4 lane + c, bit j                                               (bit 2 of 3; bit 4 of 5)
/// so that 64 bytes are 16 lanes of 4 consecutive k: the operand of a byte dot product, without a shuffle.
/// The header and every sub-block are multiples of 64 bytes. Rows beyond the matrix have scale 0.
struct PanelLayout {
  PanelShape shape;

  constexpr int groups() const noexcept { return shape.groups(); }
  /// Bytes of the 32 scales (or factors) of one group.
  constexpr int scale_row_bytes() const noexcept {
    return kPanelRows * (shape.has_super_scale() ? 1 : shape.scale == PanelScale::kFloat ? 4 : 2);
  }
  /// Scales, and minima if the shape has them.
  constexpr int scale_parts() const noexcept { return shape.has_minimum ? 2 : 1; }

  constexpr int sub_blocks() const noexcept { return shape.block / 32; }
  /// Groups that a sub-block has for itself.
  constexpr int sub_block_groups() const noexcept { return shape.group <= 32 ? 32 / shape.group : 0; }
  /// Bytes of scales and minima in front of the codes of a sub-block; 0 when they lie in the step's header.
  constexpr int sub_block_scale_bytes() const noexcept {
    const int bytes = scale_parts() * sub_block_groups() * scale_row_bytes();
    return bytes % 64 == 0 ? bytes : 0;
  }
  constexpr int code_bytes() const noexcept { return 4 * kPanelRows * shape.code_bits; }
  constexpr int sub_block_bytes() const noexcept { return sub_block_scale_bytes() + code_bytes(); }

  constexpr int super_bytes() const noexcept { return shape.has_super_scale() ? 2 * kPanelRows * scale_parts() : 0; }
  constexpr int super_minimum_offset() const noexcept { return 2 * kPanelRows; }
  constexpr int header_bytes() const noexcept {
    const int scales = sub_block_scale_bytes() != 0 ? 0 : scale_parts() * groups() * scale_row_bytes();
    return (super_bytes() + scales + 63) / 64 * 64;
  }
  constexpr int step_bytes() const noexcept { return header_bytes() + sub_blocks() * sub_block_bytes(); }

  /// Offset of the scales of group `g`, and from there to its minima.
  constexpr int scale_offset(int g) const noexcept {
    if (sub_block_scale_bytes() == 0) return super_bytes() + g * scale_row_bytes();
    return header_bytes() + g / sub_block_groups() * sub_block_bytes() + g % sub_block_groups() * scale_row_bytes();
  }
  constexpr int minimum_distance() const noexcept {
    return (sub_block_scale_bytes() == 0 ? groups() : sub_block_groups()) * scale_row_bytes();
  }
  constexpr int code_offset(int sub_block) const noexcept {
    return header_bytes() + sub_block * sub_block_bytes() + sub_block_scale_bytes();
  }

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
