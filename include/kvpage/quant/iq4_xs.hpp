/// \file IQ4_XS: 4-bit weights on non-uniform levels, in groups of 32 with 6-bit scales.
#pragma once

#include <kvpage/quant/nonlinear_codes.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: half d; u16 h; 4 bytes s; 128 bytes q. Scale g: lower nibble in nibble g of s, upper two bits in bit pair g of h;
/// group g uses 16 bytes of q, low nibbles first: d * (scale - 32) * level(q).
struct IQ4_XS {
  static constexpr std::string_view kName = "IQ4_XS";
  static constexpr std::uint32_t kGgufType = 23;
  static constexpr std::int64_t kBlockElements = 256;
  static constexpr std::int64_t kBlockBytes = 136;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block);
    const std::int32_t high = detail::load_u16(block + 2);
    for (int g = 0; g < 8; ++g) {
      const std::int32_t low_bits = (detail::load_u8(block + 4 + g / 2) >> (g % 2 * 4)) & 15;
      const float scale = d * static_cast<float>((low_bits | ((high >> (2 * g)) & 3) << 4) - 32);
      for (int i = 0; i < 16; ++i) {
        const std::int32_t q = detail::load_u8(block + 8 + g * 16 + i);
        out[g * 32 + i] = scale * detail::nonlinear_level(q & 15);
        out[g * 32 + 16 + i] = scale * detail::nonlinear_level(q >> 4);
      }
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 4,
                                     .offset = detail::kNonlinearOffset,
                                     .block = 256,
                                     .scale = PanelScale::kSuperSigned,
                                     .has_levels = true,
                                     .levels = detail::kNonlinearLevels};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    out.super_scale = detail::load_half(block);
    const std::int32_t high = detail::load_u16(block + 2);
    for (int g = 0; g < 8; ++g) {
      const std::int32_t low_bits = detail::load_u8(block + 4 + g / 2) >> (g % 2 * 4) & 15;
      out.scale[g] = static_cast<float>((low_bits | (high >> (2 * g) & 3) << 4) - 32);
      detail::unpack_nibbles(block + 8 + g * 16, out.codes + 32 * g);
    }
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block);
  }
};
static_assert(PanelWeight<IQ4_XS>);

KVPAGE_END_NAMESPACE
