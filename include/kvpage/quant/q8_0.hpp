/// \file Q8_0: 8-bit weights, one scale per 32.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: half d; 32 signed bytes q: d * q.
struct Q8_0 {
  static constexpr std::string_view kName = "Q8_0";
  static constexpr std::uint32_t kGgufType = 8;
  static constexpr std::int64_t kBlockElements = 32;
  static constexpr std::int64_t kBlockBytes = 34;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(detail::load_i8(block + 2 + i));
  }

  static constexpr PanelShape kPanel{.code_bits = 8, .offset = 128};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    for (int i = 0; i < 32; ++i) out.codes[i] = static_cast<std::uint8_t>(detail::load_u8(block + 2 + i) ^ 0x80);
    out.scale[0] = detail::load_half(block);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block);
  }
};
static_assert(PanelWeight<Q8_0>);

KVPAGE_END_NAMESPACE
