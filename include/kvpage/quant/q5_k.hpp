/// \file Q5_K: 5-bit weights in groups of 32 with 6-bit scales and minima.
#pragma once

#include <kvpage/quant/packed_scale.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: half d; half dmin; 12 bytes of packed scales; 32 bytes h; 128 bytes q. The lower bits lie in q as in the 4-bit
/// sibling; bit g of h[i] is the fifth bit of weight i of group g: d * scale * q - dmin * minimum.
struct Q5_K {
  static constexpr std::string_view kName = "Q5_K";
  static constexpr std::uint32_t kGgufType = 13;
  static constexpr std::int64_t kBlockElements = 256;
  static constexpr std::int64_t kBlockBytes = 176;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block);
    const float dmin = detail::load_half(block + 2);
    for (int g = 0; g < 8; ++g) {
      const auto packed = detail::packed_scale(block + 4, g);
      const float scale = d * static_cast<float>(packed.scale);
      const float minimum = dmin * static_cast<float>(packed.minimum);
      const std::byte* q = block + 48 + g / 2 * 32;
      const int shift = g % 2 * 4;
      for (int i = 0; i < 32; ++i) {
        const std::int32_t fifth = ((detail::load_u8(block + 16 + i) >> g) & 1) << 4;
        out[g * 32 + i] = scale * static_cast<float>(((detail::load_u8(q + i) >> shift) & 15) | fifth) - minimum;
      }
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 5, .block = 256, .scale = PanelScale::kSuperUnsigned, .has_minimum = true};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    out.super_scale = detail::load_half(block);
    out.super_minimum = -detail::load_half(block + 2);
    for (int g = 0; g < 8; ++g) {
      const auto packed = detail::packed_scale(block + 4, g);
      out.scale[g] = static_cast<float>(packed.scale);
      out.minimum[g] = static_cast<float>(packed.minimum);
      std::uint8_t* codes = out.codes + 32 * g;
      detail::unpack_field(block + 48 + g / 2 * 32, g % 2 * 4, 4, codes);
      for (int i = 0; i < 32; ++i) {
        const std::int32_t fifth = (detail::load_u8(block + 16 + i) >> g & 1) << 4;
        codes[i] = static_cast<std::uint8_t>(codes[i] | fifth);
      }
    }
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block) && detail::half_is_finite(block + 2);
  }
};
static_assert(PanelWeight<Q5_K>);

KVPAGE_END_NAMESPACE
