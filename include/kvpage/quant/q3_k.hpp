/// \file Q3_K: 3-bit weights in groups of 16 with 6-bit scales.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: 32 bytes h; 64 bytes q; 12 bytes s; half d. The two lower bits lie in q as in the 2-bit sibling; bit r of h[c] is
/// the third bit of weight c of the r-th run of 32 (clear = subtract 4): d * (scale - 32) * (q - 4 * !h).
/// Scale g: its lower nibble is nibble g / 8 of s[g % 8], its upper two bits are bit pair g / 4 of s[8 + g % 4].
struct Q3_K {
  static constexpr std::string_view kName = "Q3_K";
  static constexpr std::uint32_t kGgufType = 11;
  static constexpr std::int64_t kBlockElements = 256;
  static constexpr std::int64_t kBlockBytes = 110;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block + 108);
    for (int g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(group_scale(block + 96, g) - 32);
      const std::byte* q = block + 32 + (g / 8) * 32 + (g % 2) * 16;
      const std::byte* h = block + (g % 2) * 16;
      const int shift = (g % 8) / 2 * 2;
      for (int i = 0; i < 16; ++i) {
        const std::int32_t third = ((detail::load_u8(h + i) >> (g / 2)) & 1) << 2;
        out[g * 16 + i] = scale * static_cast<float>(((detail::load_u8(q + i) >> shift) & 3) + third - 4);
      }
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 3, .offset = 4, .block = 256, .group = 16, .scale = PanelScale::kSuperSigned};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    out.super_scale = detail::load_half(block + 108);
    for (int g = 0; g < 16; ++g) out.scale[g] = static_cast<float>(group_scale(block + 96, g) - 32);
    for (int run = 0; run < 8; ++run) {
      std::uint8_t* codes = out.codes + 32 * run;
      detail::unpack_field(block + 32 + run / 4 * 32, run % 4 * 2, 2, codes);
      for (int i = 0; i < 32; ++i) {
        const std::int32_t third = (detail::load_u8(block + i) >> run & 1) << 2;
        codes[i] = static_cast<std::uint8_t>(codes[i] | third);
      }
    }
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block + 108);
  }

 private:
  KVPAGE_HD static constexpr std::int32_t group_scale(const std::byte* s, int g) noexcept {
    const std::int32_t low = (detail::load_u8(s + g % 8) >> (g / 8 * 4)) & 15;
    const std::int32_t high = (detail::load_u8(s + 8 + g % 4) >> (g / 4 * 2)) & 3;
    return low | high << 4;
  }
};
static_assert(PanelWeight<Q3_K>);

KVPAGE_END_NAMESPACE
