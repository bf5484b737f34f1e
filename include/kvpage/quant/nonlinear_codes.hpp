/// \file The 16 non-uniform levels that two of the 4-bit formats share.
#pragma once

#include <kvpage/quant/block_fields.hpp>

#include <array>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// Level of a 4-bit code: denser around zero, where trained weights are. Source: the GGUF format.
KVPAGE_HD constexpr float nonlinear_level(std::int32_t code) noexcept {
  constexpr float kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return kLevels[code];
}

/// The same levels plus kNonlinearOffset, as unsigned bytes, for integer kernels.
inline constexpr int kNonlinearOffset = 128;
inline constexpr std::array<std::uint8_t, 16> kNonlinearLevels = [] {
  std::array<std::uint8_t, 16> levels{};
  for (std::int32_t code = 0; code < 16; ++code) {
    levels[static_cast<std::size_t>(code)] = static_cast<std::uint8_t>(static_cast<int>(nonlinear_level(code)) + kNonlinearOffset);
  }
  return levels;
}();
}  // namespace detail

KVPAGE_END_NAMESPACE
