/// \file MXFP4: 4-bit floats (e2m1), one power-of-two scale per 32.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Block: byte e; 16 bytes q. Element i < 16 is the low nibble of byte i, element i + 16 the high one: 2^(e - 127) * e2m1(q),
/// minus zero read as plus zero. e = 255 is NaN, and so is then the whole block.
/// Source: OCP Microscaling Formats Specification 1.0; nibble order of the GGUF format.
struct MXFP4 {
  static constexpr std::string_view kName = "MXFP4";
  static constexpr std::uint32_t kGgufType = 39;
  static constexpr std::int64_t kBlockElements = 32;
  static constexpr std::int64_t kBlockBytes = 17;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    const float half_scale = half_of_scale(detail::load_u8(block));
    for (int i = 0; i < 16; ++i) {
      const std::int32_t q = detail::load_u8(block + 1 + i);
      out[i] = half_scale * doubled_level(q & 15);
      out[i + 16] = half_scale * doubled_level(q >> 4);
    }
  }

  static constexpr PanelShape kPanel{.code_bits = 4,
                                     .offset = 12,
                                     .scale = PanelScale::kFloat,
                                     .has_levels = true,
                                     .levels = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0}};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, PanelBlock& out) noexcept {
    detail::unpack_nibbles(block + 1, out.codes);
    out.scale[0] = half_of_scale(detail::load_u8(block));
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::load_u8(block) != 255;
  }

 private:
  /// Twice the value of an e2m1 code, which makes every level an integer.
  KVPAGE_HD static constexpr float doubled_level(std::int32_t code) noexcept {
    constexpr float kLevels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return kLevels[code];
  }

  /// 2^(e - 128), a subnormal float for e < 2.
  KVPAGE_HD static constexpr float half_of_scale(std::int32_t e) noexcept {
    if (e == 255) return detail::bits_to_float(0x7FC0'0000u);
    const auto exponent = static_cast<std::uint32_t>(e);
    return detail::bits_to_float(exponent < 2 ? 0x0020'0000u << exponent : (exponent - 1) << 23);
  }
};
static_assert(PanelWeight<MXFP4>);

KVPAGE_END_NAMESPACE
