/// \file PanelShape: what a packed GEMM must know of a weight format; with it a format needs no kernel code.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/weight_format.hpp>

#include <array>

KVPAGE_BEGIN_NAMESPACE

/// How a group's scale is stored.
enum class PanelScale : std::uint8_t {
  kHalf,           ///< one IEEE half per group (exactly: the packer stores what unpack gives)
  kFloat,          ///< one float per group
  kSuperUnsigned,  ///< an unsigned byte per group, times one half per block
  kSuperSigned,    ///< a signed byte per group, times one half per block
};

/// Weights of the form scale * (level(code) - offset) [+ minimum], with one scale (and minimum) per group.
struct PanelShape {
  int code_bits = 4;    ///< 2, 3, 4, 5, 6 or 8
  int offset = 0;       ///< subtracted from every level, 0..128
  int block = 32;       ///< weights per unpacked block: a multiple of 32, at most 256
  int group = 32;       ///< weights per scale: 16, or a multiple of 32 that divides block
  PanelScale scale = PanelScale::kHalf;
  bool has_minimum = false;
  bool has_levels = false;              ///< code_bits 4 only: level(code) = levels[code], else level(code) = code
  std::array<std::uint8_t, 16> levels{};

  constexpr bool has_super_scale() const noexcept {
    return scale == PanelScale::kSuperUnsigned || scale == PanelScale::kSuperSigned;
  }
  constexpr int groups() const noexcept { return block / group; }
  /// The largest level that can occur.
  constexpr int max_level() const noexcept {
    if (!has_levels) return (1 << code_bits) - 1;
    int largest = 0;
    for (const std::uint8_t level : levels) largest = level > largest ? level : largest;
    return largest;
  }
  constexpr bool valid() const noexcept {
    const bool bits_ok = code_bits >= 2 && code_bits <= 8 && code_bits != 7;
    const bool group_ok = group == 16 || (group > 0 && group % 32 == 0);
    return bits_ok && group_ok && offset >= 0 && offset <= 128 && block > 0 && block % 32 == 0 && block <= 256 &&
           block % group == 0 && (!has_levels || code_bits == 4);
  }
  friend constexpr bool operator==(const PanelShape&, const PanelShape&) = default;
};

/// One block taken apart: element i has codes[i], its group g = i / group has scale[g] (and minimum[g]).
/// With a super scale the group's factors are integers, and the real ones are super_scale * scale[g] and
/// super_minimum * minimum[g]; both products must be exact in float.
struct PanelBlock {
  std::uint8_t codes[256];
  float scale[16];
  float minimum[16];
  float super_scale;
  float super_minimum;
};

/// A weight format that packs into panels: a shape, and a function that takes one of its blocks apart.
template <class W>
concept PanelWeight = WeightFormat<W> && requires(const std::byte* block, PanelBlock& out) {
  requires std::same_as<decltype(W::kPanel), const PanelShape>;
  requires W::kPanel.valid() && W::kBlockElements == W::kPanel.block;
  { W::unpack(block, out) } noexcept -> std::same_as<void>;
};

namespace detail {
/// Nibbles of q [16]: the low ones are codes 0..15, the high ones 16..31. `fifth` [32 bits] adds bit 4 of every code.
constexpr void unpack_nibbles(const std::byte* q, std::uint8_t* codes, std::uint32_t fifth = 0) noexcept {
  for (int i = 0; i < 16; ++i) {
    const std::int32_t both = load_u8(q + i);
    codes[i] = static_cast<std::uint8_t>((both & 15) | static_cast<std::int32_t>((fifth >> i & 1u) << 4));
    codes[i + 16] = static_cast<std::uint8_t>(both >> 4 | static_cast<std::int32_t>((fifth >> (i + 16) & 1u) << 4));
  }
}

/// `bits` of each of 32 bytes from `shift` on.
constexpr void unpack_field(const std::byte* q, int shift, int bits, std::uint8_t* codes) noexcept {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(load_u8(q + i) >> shift & ((1 << bits) - 1));
}
}  // namespace detail

/// How an unquantised format stores its values.
enum class PlainElement : std::uint8_t { kHalf, kBfloat, kFloat };

/// A weight format of plain floats.
template <class W>
concept PlainWeight = WeightFormat<W> && requires {
  requires std::same_as<decltype(W::kPlainElement), const PlainElement>;
  requires W::kBlockElements == 1;
};

KVPAGE_END_NAMESPACE
