/// \file The 16 non-uniform levels that two of the 4-bit formats share.
#pragma once

#include <kvpage/quant/block_fields.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// Level of a 4-bit code: denser around zero, where trained weights are. Source: the GGUF format.
KVPAGE_HD constexpr float nonlinear_level(std::int32_t code) noexcept {
  constexpr float kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return kLevels[code];
}
}  // namespace detail

KVPAGE_END_NAMESPACE
