/// \file Nibbles64: a user's own weight format: all that the packed GEMM must know of it, on every instruction set.
#pragma once

#include <kvpage/precision/minifloat.hpp>
#include <kvpage/quant/panel_shape.hpp>

#include <algorithm>

namespace own {

/// 4-bit weights, 64 to a scale. Block: half d; 32 bytes q. Element i < 32 is the low nibble of byte i, element i + 32 the
/// high one: d * (q - 7), that is -7 d .. 8 d.
struct Nibbles64 {
  static constexpr std::string_view kName = "Nibbles64";
  static constexpr std::uint32_t kGgufType = 1'000'064;  // no file uses it
  static constexpr std::int64_t kBlockElements = 64;
  static constexpr std::int64_t kBlockBytes = 34;

  /// The descriptor: with it the library's kernels run the format.
  static constexpr kvpage::PanelShape kPanel{.code_bits = 4, .offset = 7, .block = 64, .group = 64};

  /// [kBlockBytes] -> codes and scales
  static constexpr void unpack(const std::byte* block, kvpage::PanelBlock& out) noexcept {
    for (int i = 0; i < 64; ++i) out.codes[i] = code(block, i);
    out.scale[0] = scale(block);
  }

  /// The oracle: what a block means. [kBlockBytes] -> [kBlockElements]
  static constexpr void decode(const std::byte* block, float* out) noexcept {
    for (int i = 0; i < 64; ++i) out[i] = scale(block) * static_cast<float>(code(block, i) - 7);
  }

  static constexpr bool scales_finite(const std::byte* block) noexcept { return scale(block) - scale(block) == 0.0f; }

  /// The smallest scale that clips nothing. [kBlockElements] -> [kBlockBytes]. Requires: finite weights below 2^18.
  static constexpr void encode(const float* weights, std::byte* block) noexcept {
    float largest = 0.0f;
    for (int i = 0; i < 64; ++i) largest = std::max(largest, weights[i] > 0.0f ? weights[i] / 8.0f : weights[i] / -7.0f);
    const std::uint16_t d = kvpage::encode_half(largest);
    block[0] = static_cast<std::byte>(d & 0xFF);
    block[1] = static_cast<std::byte>(d >> 8);
    const float inverse = scale(block) > 0.0f ? 1.0f / scale(block) : 0.0f;
    for (int i = 0; i < 32; ++i) {
      block[2 + i] = static_cast<std::byte>(nearest(weights[i] * inverse) | nearest(weights[i + 32] * inverse) << 4);
    }
  }

 private:
  static constexpr float scale(const std::byte* block) noexcept {
    const int bits = static_cast<int>(block[0]) | static_cast<int>(block[1]) << 8;
    return kvpage::decode_half(static_cast<std::uint16_t>(bits));
  }
  static constexpr std::uint8_t code(const std::byte* block, int i) noexcept {
    return static_cast<std::uint8_t>(static_cast<int>(block[2 + i % 32]) >> (i / 32 * 4) & 15);
  }
  static constexpr int nearest(float level) noexcept { return static_cast<int>(std::clamp(level, -7.0f, 8.0f) + 7.5f); }
};
static_assert(kvpage::PanelWeight<Nibbles64>);

}  // namespace own
