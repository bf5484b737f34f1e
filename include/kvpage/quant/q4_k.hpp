/// \file Q4_K: 4-bit weights in groups of 32 with 6-bit scales and minima.
#pragma once

#include <kvpage/quant/packed_scale.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: half d; half dmin; 12 bytes of packed scales; 128 bytes q. Run r of 64 weights uses 32 bytes of q: low nibbles are
/// group 2r, high nibbles group 2r + 1: d * scale * q - dmin * minimum.
struct Q4_K {
  static constexpr std::string_view kName = "Q4_K";
  static constexpr std::uint32_t kGgufType = 12;
  static constexpr std::int64_t kBlockElements = 256;
  static constexpr std::int64_t kBlockBytes = 144;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block);
    const float dmin = detail::load_half(block + 2);
    for (int g = 0; g < 8; ++g) {
      const auto packed = detail::packed_scale(block + 4, g);
      const float scale = d * static_cast<float>(packed.scale);
      const float minimum = dmin * static_cast<float>(packed.minimum);
      const std::byte* q = block + 16 + g / 2 * 32;
      const int shift = g % 2 * 4;
      for (int i = 0; i < 32; ++i) {
        out[g * 32 + i] = scale * static_cast<float>((detail::load_u8(q + i) >> shift) & 15) - minimum;
      }
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 4, .block = 256, .scale = PanelScale::kSuperUnsigned, .has_minimum = true};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    out.super_scale = detail::load_half(block);
    out.super_minimum = -detail::load_half(block + 2);
    for (int g = 0; g < 8; ++g) {
      const auto packed = detail::packed_scale(block + 4, g);
      out.scale[g] = static_cast<float>(packed.scale);
      out.minimum[g] = static_cast<float>(packed.minimum);
      detail::unpack_field(block + 16 + g / 2 * 32, g % 2 * 4, 4, out.codes + 32 * g);
    }
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block) && detail::half_is_finite(block + 2);
  }
};
static_assert(PanelWeight<Q4_K>);

KVPAGE_END_NAMESPACE
