/// \file Q4_1: 4-bit weights, one scale and one minimum per 32.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: half d; half m; 16 bytes q. Element i < 16 is the low nibble of byte i, element i + 16 the high one: d * q + m.
struct Q4_1 {
  static constexpr std::string_view kName = "Q4_1";
  static constexpr std::uint32_t kGgufType = 3;
  static constexpr std::int64_t kBlockElements = 32;
  static constexpr std::int64_t kBlockBytes = 20;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block);
    const float m = detail::load_half(block + 2);
    for (int i = 0; i < 16; ++i) {
      const std::int32_t q = detail::load_u8(block + 4 + i);
      out[i] = d * static_cast<float>(q & 15) + m;
      out[i + 16] = d * static_cast<float>(q >> 4) + m;
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 4, .has_minimum = true};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    detail::unpack_nibbles(block + 4, out.codes);
    out.scale[0] = detail::load_half(block);
    out.minimum[0] = detail::load_half(block + 2);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block) && detail::half_is_finite(block + 2);
  }
};
static_assert(PanelWeight<Q4_1>);

KVPAGE_END_NAMESPACE
