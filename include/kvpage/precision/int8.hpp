/// \file Int8: signed 8-bit integer codes.
#pragma once

#include <kvpage/precision/integer_code.hpp>
#include <kvpage/precision/precision.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Codes -128..127; a quantiser supplies the scale. `encode` saturates, and NaN becomes 0: the scale must carry the NaN.
struct Int8 {
  using Storage = std::int8_t;

  static constexpr std::string_view kName = "int8";
  static constexpr int kBits = 8;
  static constexpr bool kIsCode = true;
  static constexpr FloatShape kShape{};
  static constexpr float kMaxFinite = 127.0f;
  static constexpr float kTolerance = 0.5f;

  KVPAGE_HD static constexpr float decode(Storage code) noexcept { return static_cast<float>(code); }
  KVPAGE_HD static constexpr Storage encode(float value) noexcept {
    return static_cast<Storage>(detail::round_to_code(value, -128.0f, 127.0f));
  }
};
static_assert(Precision<Int8>);

KVPAGE_END_NAMESPACE
