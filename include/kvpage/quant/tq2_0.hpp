/// \file TQ2_0: ternary weights, four per byte, one scale per 256.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: 64 bytes q; half d. Each half of 128 weights uses 32 bytes, bit pair j for its j-th run of 32: d * (q - 1).
struct TQ2_0 {
  static constexpr std::string_view kName = "TQ2_0";
  static constexpr std::uint32_t kGgufType = 35;
  static constexpr std::int64_t kBlockElements = 256;
  static constexpr std::int64_t kBlockBytes = 66;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block + 64);
    for (int run = 0; run < 8; ++run) {
      const std::byte* q = block + run / 4 * 32;
      const int shift = run % 4 * 2;
      for (int i = 0; i < 32; ++i) out[run * 32 + i] = d * static_cast<float>(((detail::load_u8(q + i) >> shift) & 3) - 1);
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 2, .offset = 1, .block = 256, .group = 256};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    for (int run = 0; run < 8; ++run) detail::unpack_field(block + run / 4 * 32, run % 4 * 2, 2, out.codes + 32 * run);
    out.scale[0] = detail::load_half(block + 64);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block + 64);
  }
};
static_assert(PanelWeight<TQ2_0>);

KVPAGE_END_NAMESPACE
