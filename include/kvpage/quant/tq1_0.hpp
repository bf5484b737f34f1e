/// \file TQ1_0: ternary weights, five per byte, one scale per 256.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: 48 bytes a; 4 bytes b; half d. A byte is ceil(256/243 * (base-3 number)); digit n is read by multiplying by 3^n
/// modulo 256 and taking the upper part of 3 times that. Digit n of 32 bytes fills a run of 32 weights, then of 16, then of 4
/// (four digits there): d * (digit - 1).
struct TQ1_0 {
  static constexpr std::string_view kName = "TQ1_0";
  static constexpr std::uint32_t kGgufType = 34;
  static constexpr std::int64_t kBlockElements = 256;
  static constexpr std::int64_t kBlockBytes = 54;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float d = detail::load_half(block + 52);
    decode_run(block, 32, 5, d, out);
    decode_run(block + 32, 16, 5, d, out + 160);
    decode_run(block + 48, 4, 4, d, out + 240);
  }

  static constexpr PanelShape kPanel{.code_bits = 2, .offset = 1, .block = 256, .group = 256};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    unpack_run(block, 32, 5, out.codes);
    unpack_run(block + 32, 16, 5, out.codes + 160);
    unpack_run(block + 48, 4, 4, out.codes + 240);
    out.scale[0] = detail::load_half(block + 52);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block + 52);
  }

 private:
  static constexpr void unpack_run(const std::byte* bytes, int width, int digits, std::uint8_t* codes) noexcept {
    std::int32_t power = 1;
    for (int n = 0; n < digits; ++n, power *= 3) {
      for (int i = 0; i < width; ++i) {
        const std::int32_t shifted = (detail::load_u8(bytes + i) * power) & 255;
        codes[n * width + i] = static_cast<std::uint8_t>((shifted * 3) >> 8);
      }
    }
  }

  KVPAGE_HD static constexpr void decode_run(const std::byte* bytes, int width, int digits, float d, float* out) noexcept {
    std::int32_t power = 1;
    for (int n = 0; n < digits; ++n, power *= 3) {
      for (int i = 0; i < width; ++i) {
        const std::int32_t shifted = (detail::load_u8(bytes + i) * power) & 255;
        out[n * width + i] = d * static_cast<float>(((shifted * 3) >> 8) - 1);
      }
    }
  }
};
static_assert(PanelWeight<TQ1_0>);

KVPAGE_END_NAMESPACE
