/// \file The codecs of quantised keys and values: integer codes with their own scales, kept per token and head in the page.
#pragma once

#include <kvpage/kv/kv_format.hpp>
#include <kvpage/precision/integer_code.hpp>
#include <kvpage/precision/minifloat.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
inline constexpr std::uint16_t kHalfNan = 0x7E00;

/// The smallest half >= x. Requires: x >= 0. A scale rounded up never clips the largest value.
KVPAGE_HD constexpr std::uint16_t half_rounded_up(float x) noexcept {
  const std::uint16_t code = encode_half(x);
  return static_cast<std::uint16_t>(decode_half(code) < x ? code + 1 : code);
}

/// The largest half <= x.
KVPAGE_HD constexpr std::uint16_t half_rounded_down(float x) noexcept {
  const std::uint16_t code = encode_half(x);
  if (!(decode_half(code) > x)) return code;
  if ((code & 0x8000u) != 0) return static_cast<std::uint16_t>(code + 1);
  return static_cast<std::uint16_t>(code == 0 ? 0x8001u : code - 1u);
}

KVPAGE_HD constexpr float magnitude(float x) noexcept { return bits_to_float(float_to_bits(x) & 0x7FFF'FFFFu); }
KVPAGE_HD constexpr bool is_finite(float x) noexcept { return (float_to_bits(x) & 0x7F80'0000u) != 0x7F80'0000u; }
}  // namespace detail

/// 8-bit codes and one scale per vector: x = scale * q, q in [-127, 127], scale = max |x| / 127 rounded up to a half.
/// A vector of zeros has scale 0. NaN or infinity anywhere makes the scale NaN, so that the damage is visible.
///
/// `StoredCode` std::int8_t stores q; std::uint8_t stores q + 128, the operand that integer dot instructions want, four
/// neighbouring dims at a time. Rotation spreads outlier dims, which halves the error of keys and does nothing for values.
template <std::integral StoredCode, bool kRotate>
  requires(sizeof(StoredCode) == 1)
struct SymmetricCodec {
  using Code = StoredCode;
  static constexpr int kBits = 8;
  static constexpr int kCenter = std::is_signed_v<StoredCode> ? 0 : 128;  ///< stored code of q = 0
  static constexpr int kDotDims = std::is_signed_v<StoredCode> ? 1 : 4;
  static constexpr bool kRotated = kRotate;
  static constexpr KVScaling kScaling{.offset = kCenter};

  KVPAGE_HD static constexpr std::int64_t num_params(std::int64_t) noexcept { return 1; }

  KVPAGE_HD static constexpr void encode(const float* x, std::int64_t head_dim, Code* codes, std::uint16_t* params) noexcept {
    float largest = 0.0f;
    bool finite = true;
    for (std::int64_t d = 0; d < head_dim; ++d) {
      finite = finite && detail::is_finite(x[d]);
      largest = detail::magnitude(x[d]) > largest ? detail::magnitude(x[d]) : largest;
    }
    params[0] = finite ? detail::half_rounded_up(largest / 127.0f) : detail::kHalfNan;
    const float scale = decode_half(params[0]);
    const bool codable = finite && scale > 0.0f;
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const std::int32_t q = codable ? detail::round_to_code(x[d] / scale, -127.0f, 127.0f) : 0;
      codes[d] = static_cast<Code>(q + kCenter);
    }
  }
  KVPAGE_HD static constexpr float decode(Code code, const std::uint16_t* params, std::int64_t) noexcept {
    return decode_half(params[0]) * static_cast<float>(static_cast<std::int32_t>(code) - kCenter);
  }
};

/// 4-bit codes in groups of 32 dims, each with a scale and a minimum: x = scale * q + minimum, q in [0, 15]. The minimum is
/// a half rounded down, the scale a half rounded up, so nothing clips. Always rotated. NaN or infinity in a group makes
/// that group's scale NaN.
///
/// Parameters of group g: 2 g = scale, 2 g + 1 = minimum. Source: groups of 32 as KIVI (arXiv 2402.02750) uses for values.
struct GroupedCodec {
  using Code = std::uint8_t;
  static constexpr int kBits = 4;
  static constexpr int kDotDims = 4;
  static constexpr bool kRotated = true;
  static constexpr std::int64_t kGroupDims = 32;
  static constexpr KVScaling kScaling{.group_dims = kGroupDims, .has_minimum = true};

  KVPAGE_HD static constexpr std::int64_t num_params(std::int64_t head_dim) noexcept { return 2 * ceil_div(head_dim, kGroupDims); }

  KVPAGE_HD static constexpr void encode(const float* x, std::int64_t head_dim, Code* codes, std::uint16_t* params) noexcept {
    for (std::int64_t begin = 0; begin < head_dim; begin += kGroupDims) {
      const std::int64_t size = begin + kGroupDims < head_dim ? kGroupDims : head_dim - begin;
      encode_group(x + begin, size, codes + begin, params + 2 * (begin / kGroupDims));
    }
  }
  KVPAGE_HD static constexpr float decode(Code code, const std::uint16_t* params, std::int64_t d) noexcept {
    const std::uint16_t* group = params + 2 * (d / kGroupDims);
    return decode_half(group[0]) * static_cast<float>(code) + decode_half(group[1]);  // the product is exact
  }

 private:
  KVPAGE_HD static constexpr void encode_group(const float* x, std::int64_t size, Code* codes, std::uint16_t* params) noexcept {
    float low = 0x1.fffffep127f;
    float high = -0x1.fffffep127f;
    bool finite = true;
    for (std::int64_t d = 0; d < size; ++d) {
      finite = finite && detail::is_finite(x[d]);
      low = x[d] < low ? x[d] : low;
      high = x[d] > high ? x[d] : high;
    }
    params[1] = finite ? detail::half_rounded_down(low) : std::uint16_t{0};
    const float minimum = decode_half(params[1]);
    params[0] = finite && detail::is_finite(minimum) ? detail::half_rounded_up((high - minimum) / 15.0f) : detail::kHalfNan;
    const float scale = decode_half(params[0]);
    const bool codable = finite && scale > 0.0f;
    for (std::int64_t d = 0; d < size; ++d) {
      codes[d] = static_cast<Code>(codable ? detail::round_to_code((x[d] - minimum) / scale, 0.0f, 15.0f) : 0);
    }
  }
};

/// Keys for integer dot products, and values, with one scale per token and head.
using SymmetricKeyCodec = SymmetricCodec<std::uint8_t, true>;
using SymmetricValueCodec = SymmetricCodec<std::int8_t, false>;
static_assert(ScaledKVCodec<SymmetricKeyCodec> && ScaledKVCodec<SymmetricValueCodec> && ScaledKVCodec<GroupedCodec>);

KVPAGE_END_NAMESPACE
