/// \file F32: the float itself.
#pragma once

#include <kvpage/precision/precision.hpp>

KVPAGE_BEGIN_NAMESPACE

/// IEEE single precision. `encode` and `decode` are the identity, NaN payloads included.
struct F32 {
  using Storage = float;

  static constexpr std::string_view kName = "f32";
  static constexpr int kBits = 32;
  static constexpr bool kIsCode = false;
  static constexpr FloatShape kShape{8, 23};
  static constexpr float kMaxFinite = 0x1.fffffep127f;
  static constexpr float kTolerance = 0.0f;

  KVPAGE_HD static constexpr float decode(Storage code) noexcept { return code; }
  KVPAGE_HD static constexpr Storage encode(float value) noexcept { return value; }
};
static_assert(Precision<F32>);

KVPAGE_END_NAMESPACE
