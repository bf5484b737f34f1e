/// \file Q5_0: 5-bit weights, one scale per 32.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: half d; u32 h; 16 bytes q. Bit i of h is bit 4 of element i; the lower bits of element i < 16 are the low nibble
/// of byte i, those of element i + 16 the high one: d * (q - 16).
struct Q5_0 {
  static constexpr std::string_view kName = "Q5_0";
  static constexpr std::uint32_t kGgufType = 6;
  static constexpr std::int64_t kBlockElements = 32;
  static constexpr std::int64_t kBlockBytes = 22;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block);
    const std::uint32_t high = detail::load_u32(block + 2);
    for (int i = 0; i < 16; ++i) {
      const std::int32_t q = detail::load_u8(block + 6 + i);
      const auto bit0 = static_cast<std::int32_t>(((high >> i) & 1u) << 4);
      const auto bit1 = static_cast<std::int32_t>(((high >> (i + 16)) & 1u) << 4);
      out[i] = d * static_cast<float>(((q & 15) | bit0) - 16);
      out[i + 16] = d * static_cast<float>(((q >> 4) | bit1) - 16);
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 5, .offset = 16};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    detail::unpack_nibbles(block + 6, out.codes, detail::load_u32(block + 2));
    out.scale[0] = detail::load_half(block);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block);
  }
};
static_assert(PanelWeight<Q5_0>);

KVPAGE_END_NAMESPACE
