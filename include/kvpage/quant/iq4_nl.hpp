/// \file IQ4_NL: 4-bit weights on non-uniform levels, one scale per 32.
#pragma once

#include <kvpage/quant/nonlinear_codes.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: half d; 16 bytes q. Element i < 16 is the low nibble of byte i, element i + 16 the high one: d * level(q).
struct IQ4_NL {
  static constexpr std::string_view kName = "IQ4_NL";
  static constexpr std::uint32_t kGgufType = 20;
  static constexpr std::int64_t kBlockElements = 32;
  static constexpr std::int64_t kBlockBytes = 18;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block);
    for (int i = 0; i < 16; ++i) {
      const std::int32_t q = detail::load_u8(block + 2 + i);
      out[i] = d * detail::nonlinear_level(q & 15);
      out[i + 16] = d * detail::nonlinear_level(q >> 4);
    }
  }

  static constexpr PanelShape kPanel{
      .code_bits = 4, .offset = detail::kNonlinearOffset, .has_levels = true, .levels = detail::kNonlinearLevels};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    detail::unpack_nibbles(block + 2, out.codes);
    out.scale[0] = detail::load_half(block);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block);
  }
};
static_assert(PanelWeight<IQ4_NL>);

KVPAGE_END_NAMESPACE
