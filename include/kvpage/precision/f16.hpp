/// \file F16: the 16-bit IEEE float.
#pragma once

#include <kvpage/precision/minifloat.hpp>
#include <kvpage/precision/precision.hpp>

KVPAGE_BEGIN_NAMESPACE

/// 5 exponent and 10 mantissa bits. Overflow gives infinity, as the hardware conversions do.
struct F16 {
  using Storage = std::uint16_t;

  static constexpr std::string_view kName = "f16";
  static constexpr int kBits = 16;
  static constexpr bool kIsCode = false;
  static constexpr FloatShape kShape{5, 10};
  static constexpr float kMaxFinite = 65504.0f;
  static constexpr float kTolerance = 0x1p-11f;

  KVPAGE_HD static constexpr float decode(Storage code) noexcept { return decode_half(code); }
  KVPAGE_HD static constexpr Storage encode(float value) noexcept { return encode_half(value); }
};
static_assert(Precision<F16>);

KVPAGE_END_NAMESPACE
