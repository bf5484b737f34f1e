/// \file Fp8E5M2: 8-bit float with 5 exponent bits: the upper byte of a 16-bit IEEE float.
#pragma once

#include <kvpage/precision/minifloat.hpp>
#include <kvpage/precision/precision.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Infinity and NaN decode as in IEEE; `encode` saturates overflow and infinity to +-57344.
/// Source: OCP 8-bit Floating Point Specification 1.0, SAT mode.
struct Fp8E5M2 {
  using Storage = std::uint8_t;

  static constexpr std::string_view kName = "fp8_e5m2";
  static constexpr int kBits = 8;
  static constexpr bool kIsCode = false;
  static constexpr FloatShape kShape{5, 2, FloatRange::kSaturate};
  static constexpr float kMaxFinite = 57344.0f;
  static constexpr float kTolerance = 0x1p-3f;

  KVPAGE_HD static constexpr float decode(Storage code) noexcept { return Codec::decode(code); }
  KVPAGE_HD static constexpr Storage encode(float value) noexcept { return static_cast<Storage>(Codec::encode(value)); }

 private:
  using Codec = Minifloat<kShape.exponent_bits, kShape.mantissa_bits, kShape.range>;
};
static_assert(Precision<Fp8E5M2>);

KVPAGE_END_NAMESPACE
