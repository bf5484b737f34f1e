/// \file Int4: signed 4-bit integer codes.
#pragma once

#include <kvpage/precision/integer_code.hpp>
#include <kvpage/precision/precision.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Codes -8..7 in two's complement, one per `Storage`, in its low nibble; `decode` ignores the high one.
/// A quantiser supplies the scale and packs two codes per byte, the low nibble being the even index. `encode` saturates,
/// and NaN becomes 0: the scale must carry the NaN.
struct Int4 {
  using Storage = std::uint8_t;

  static constexpr std::string_view kName = "int4";
  static constexpr int kBits = 4;
  static constexpr bool kIsCode = true;
  static constexpr FloatShape kShape{};
  static constexpr float kMaxFinite = 7.0f;
  static constexpr float kTolerance = 0.5f;

  KVPAGE_HD static constexpr float decode(Storage code) noexcept {
    return static_cast<float>(static_cast<std::int32_t>((code & 0xFu) ^ 8u) - 8);
  }
  KVPAGE_HD static constexpr Storage encode(float value) noexcept {
    return static_cast<Storage>(static_cast<std::uint32_t>(detail::round_to_code(value, -8.0f, 7.0f)) & 0xFu);
  }
};
static_assert(Precision<Int4>);

KVPAGE_END_NAMESPACE
