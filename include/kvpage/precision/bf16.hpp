/// \file BF16: the upper 16 bits of a float.
#pragma once

#include <kvpage/precision/minifloat.hpp>
#include <kvpage/precision/precision.hpp>

KVPAGE_BEGIN_NAMESPACE

/// 8 exponent and 7 mantissa bits. Overflow gives infinity; subnormals are kept.
struct BF16 {
  using Storage = std::uint16_t;

  static constexpr std::string_view kName = "bf16";
  static constexpr int kBits = 16;
  static constexpr bool kIsCode = false;
  static constexpr FloatShape kShape{8, 7};
  static constexpr float kMaxFinite = 0x1.fep127f;
  static constexpr float kTolerance = 0x1p-8f;

  KVPAGE_HD static constexpr float decode(Storage code) noexcept { return decode_upper_half(code); }
  KVPAGE_HD static constexpr Storage encode(float value) noexcept { return encode_upper_half(value); }
};
static_assert(Precision<BF16>);

KVPAGE_END_NAMESPACE
