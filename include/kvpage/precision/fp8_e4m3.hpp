/// \file Fp8E4M3: 8-bit float with 4 exponent bits and no infinity ("e4m3fn").
#pragma once

#include <kvpage/precision/minifloat.hpp>
#include <kvpage/precision/precision.hpp>

KVPAGE_BEGIN_NAMESPACE

/// NaN is 0x7F and 0xFF, every other code is a number. Overflow and infinity saturate to +-448: a cache that turned one
/// large key into NaN would lose the whole row. Source: OCP 8-bit Floating Point Specification 1.0, SAT mode.
struct Fp8E4M3 {
  using Storage = std::uint8_t;

  static constexpr std::string_view kName = "fp8_e4m3";
  static constexpr int kBits = 8;
  static constexpr bool kIsCode = false;
  static constexpr FloatShape kShape{4, 3, FloatRange::kSaturateOneNan};
  static constexpr float kMaxFinite = 448.0f;
  static constexpr float kTolerance = 0x1p-4f;

  KVPAGE_HD static constexpr float decode(Storage code) noexcept { return Codec::decode(code); }
  KVPAGE_HD static constexpr Storage encode(float value) noexcept { return static_cast<Storage>(Codec::encode(value)); }

 private:
  using Codec = Minifloat<kShape.exponent_bits, kShape.mantissa_bits, kShape.range>;
};
static_assert(Precision<Fp8E4M3>);

KVPAGE_END_NAMESPACE
