/// \file Q6_K: 6-bit weights in groups of 16 with 8-bit scales.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: 128 bytes q; 64 bytes h; 16 signed bytes s; half d. Each half of 128 weights uses 64 bytes of q and 32 of h. Run r
/// (of 4 x 32) has its lower nibbles in the low (r < 2) or high nibbles of bytes 32 * (r % 2) of q, and its upper bits in
/// bit pair r of h: d * s * (q - 32), one s per 16 weights.
struct Q6_K {
  static constexpr std::string_view kName = "Q6_K";
  static constexpr std::uint32_t kGgufType = 14;
  static constexpr std::int64_t kBlockElements = 256;
  static constexpr std::int64_t kBlockBytes = 210;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block + 208);
    for (int g = 0; g < 16; ++g) {
      const int half = g / 8;
      const int run = g % 8 / 2;
      const float scale = d * static_cast<float>(detail::load_i8(block + 192 + g));
      const std::byte* q = block + half * 64 + run % 2 * 32 + g % 2 * 16;
      const std::byte* h = block + 128 + half * 32 + g % 2 * 16;
      const int low_shift = run / 2 * 4;
      const int high_shift = run * 2;
      for (int i = 0; i < 16; ++i) {
        const std::int32_t low = (detail::load_u8(q + i) >> low_shift) & 15;
        const std::int32_t high = ((detail::load_u8(h + i) >> high_shift) & 3) << 4;
        out[g * 16 + i] = scale * static_cast<float>((low | high) - 32);
      }
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 6, .offset = 32, .block = 256, .group = 16, .scale = PanelScale::kSuperSigned};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    out.super_scale = detail::load_half(block + 208);
    for (int g = 0; g < 16; ++g) out.scale[g] = static_cast<float>(detail::load_i8(block + 192 + g));
    for (int run = 0; run < 8; ++run) {
      const int half = run / 4;
      const std::byte* q = block + half * 64 + run % 2 * 32;
      const std::byte* h = block + 128 + half * 32;
      for (int i = 0; i < 32; ++i) {
        const std::int32_t low = detail::load_u8(q + i) >> (run % 4 / 2 * 4) & 15;
        const std::int32_t high = (detail::load_u8(h + i) >> (run % 4 * 2) & 3) << 4;
        out.codes[32 * run + i] = static_cast<std::uint8_t>(low | high);
      }
    }
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block + 208);
  }
};
static_assert(PanelWeight<Q6_K>);

KVPAGE_END_NAMESPACE
