/// \file Q5_1: 5-bit weights, one scale and one minimum per 32.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: half d; half m; u32 h; 16 bytes q. Bit i of h is bit 4 of element i; the lower bits of element i < 16 are the low
/// nibble of byte i, those of element i + 16 the high one: d * q + m.
struct Q5_1 {
  static constexpr std::string_view kName = "Q5_1";
  static constexpr std::uint32_t kGgufType = 7;
  static constexpr std::int64_t kBlockElements = 32;
  static constexpr std::int64_t kBlockBytes = 24;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block);
    const float m = detail::load_half(block + 2);
    const std::uint32_t high = detail::load_u32(block + 4);
    for (int i = 0; i < 16; ++i) {
      const std::int32_t q = detail::load_u8(block + 8 + i);
      const auto bit0 = static_cast<std::int32_t>(((high >> i) & 1u) << 4);
      const auto bit1 = static_cast<std::int32_t>(((high >> (i + 16)) & 1u) << 4);
      out[i] = d * static_cast<float>((q & 15) | bit0) + m;
      out[i + 16] = d * static_cast<float>((q >> 4) | bit1) + m;
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 5, .has_minimum = true};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    detail::unpack_nibbles(block + 8, out.codes, detail::load_u32(block + 4));
    out.scale[0] = detail::load_half(block);
    out.minimum[0] = detail::load_half(block + 2);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block) && detail::half_is_finite(block + 2);
  }
};
static_assert(PanelWeight<Q5_1>);

KVPAGE_END_NAMESPACE
