/// \file The eight 6-bit (scale, minimum) pairs that two of the super-block formats pack into 12 bytes.
#pragma once

#include <kvpage/quant/block_fields.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
struct PackedScale {
  std::int32_t scale;
  std::int32_t minimum;
};

/// Pair `g` of 8 from `s` [12]: the first four lie in the lower 6 bits of s[g] and s[g + 4]; the others have their lower
/// nibbles in s[g + 4] and their upper two bits in the upper bits of s[g - 4] and s[g].
KVPAGE_HD constexpr PackedScale packed_scale(const std::byte* s, int g) noexcept {
  if (g < 4) return {load_u8(s + g) & 63, load_u8(s + g + 4) & 63};
  const std::int32_t low = load_u8(s + g + 4);
  return {(low & 15) | (load_u8(s + g - 4) >> 6) << 4, (low >> 4) | (load_u8(s + g) >> 6) << 4};
}
}  // namespace detail

KVPAGE_END_NAMESPACE
