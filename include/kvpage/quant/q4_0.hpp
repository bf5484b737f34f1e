/// \file Q4_0: 4-bit weights, one scale per 32.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: half d; 16 bytes q. Element i < 16 is the low nibble of byte i, element i + 16 the high one: d * (q - 8).
struct Q4_0 {
  static constexpr std::string_view kName = "Q4_0";
  static constexpr std::uint32_t kGgufType = 2;
  static constexpr std::int64_t kBlockElements = 32;
  static constexpr std::int64_t kBlockBytes = 18;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block);
    for (int i = 0; i < 16; ++i) {
      const std::int32_t q = detail::load_u8(block + 2 + i);
      out[i] = d * static_cast<float>((q & 15) - 8);
      out[i + 16] = d * static_cast<float>((q >> 4) - 8);
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 4, .offset = 8};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    detail::unpack_nibbles(block + 2, out.codes);
    out.scale[0] = detail::load_half(block);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block);
  }
};
static_assert(PanelWeight<Q4_0>);

KVPAGE_END_NAMESPACE
