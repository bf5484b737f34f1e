/// \file Q2_K: 2-bit weights in groups of 16 with 4-bit scales and minima.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: 16 bytes s; 64 bytes q; half d; half dmin. Group g (16 weights) has scale d * (s[g] & 15) and minimum
/// dmin * (s[g] >> 4). Each half of 128 weights uses 32 bytes of q, bit pair 2*j for its j-th run of 32 weights.
struct Q2_K {
  static constexpr std::string_view kName = "Q2_K";
  static constexpr std::uint32_t kGgufType = 10;
  static constexpr std::int64_t kBlockElements = 256;
  static constexpr std::int64_t kBlockBytes = 84;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block + 80);
    const float dmin = detail::load_half(block + 82);
    for (int g = 0; g < 16; ++g) {
      const std::int32_t s = detail::load_u8(block + g);
      const float scale = d * static_cast<float>(s & 15);
      const float minimum = dmin * static_cast<float>(s >> 4);
      const std::byte* q = block + 16 + (g / 8) * 32 + (g % 2) * 16;
      const int shift = (g % 8) / 2 * 2;
      for (int i = 0; i < 16; ++i) {
        out[g * 16 + i] = scale * static_cast<float>((detail::load_u8(q + i) >> shift) & 3) - minimum;
      }
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 2, .block = 256, .group = 16, .scale = PanelScale::kSuperUnsigned, .has_minimum = true};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    out.super_scale = detail::load_half(block + 80);
    out.super_minimum = -detail::load_half(block + 82);
    for (int g = 0; g < 16; ++g) {
      out.scale[g] = static_cast<float>(detail::load_u8(block + g) & 15);
      out.minimum[g] = static_cast<float>(detail::load_u8(block + g) >> 4);
    }
    for (int run = 0; run < 8; ++run) detail::unpack_field(block + 16 + run / 4 * 32, run % 4 * 2, 2, out.codes + 32 * run);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block + 80) && detail::half_is_finite(block + 82);
  }
};
static_assert(PanelWeight<Q2_K>);

KVPAGE_END_NAMESPACE
