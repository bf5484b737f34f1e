/// \file Codec of the small IEEE-like floats (sign, exponent, mantissa), shared by precisions and weight formats.
#pragma once

#include <kvpage/precision/float_shape.hpp>

#include <concepts>
#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// std::bit_cast that device code may call without relaxed constexpr.
KVPAGE_HD constexpr std::uint32_t float_to_bits(float value) noexcept { return __builtin_bit_cast(std::uint32_t, value); }
KVPAGE_HD constexpr float bits_to_float(std::uint32_t bits) noexcept { return __builtin_bit_cast(float, bits); }

/// 2^exponent. Requires: a normal float.
KVPAGE_HD constexpr float power_of_two(int exponent) noexcept {
  return bits_to_float(static_cast<std::uint32_t>(exponent + 127) << 23);
}

/// `yes` or `no` without a branch, so that loops over codes become vector code on every compiler.
KVPAGE_HD constexpr std::uint32_t select_bits(bool condition, std::uint32_t yes, std::uint32_t no) noexcept {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}
}  // namespace detail

/// A float of 1 + ExponentBits + MantissaBits bits with the IEEE bias 2^(ExponentBits-1) - 1 and gradual underflow.
/// Source: IEEE 754-2019 section 3; OCP 8-bit Floating Point Specification 1.0 (the saturating rules are its SAT mode).
template <int ExponentBits, int MantissaBits, FloatRange Range>
struct Minifloat {
  static_assert(ExponentBits >= 2 && ExponentBits <= 7, "an exponent as wide as the float's own needs no codec");
  static_assert(MantissaBits >= 1 && 1 + ExponentBits + MantissaBits <= 16, "codes fit 16 bits");

  static constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
  static constexpr std::uint32_t kSignBit = 1u << (ExponentBits + MantissaBits);
  static constexpr std::uint32_t kAllOnes = kSignBit - 1;
  /// First code whose exponent bits are all set.
  static constexpr std::uint32_t kTopExponent = kAllOnes & ~((1u << MantissaBits) - 1);
  static constexpr std::uint32_t kLargestFinite = Range == FloatRange::kSaturateOneNan ? kAllOnes - 1 : kTopExponent - 1;
  static constexpr std::uint32_t kQuietBit = 1u << (MantissaBits - 1);

  /// The value of a code, exact. NaN keeps its sign and payload.
  KVPAGE_HD static constexpr float decode(std::uint32_t code) noexcept {
    const std::uint32_t magnitude = code & kAllOnes;
    const std::uint32_t sign = (code & kSignBit) << (31 - ExponentBits - MantissaBits);
    const std::uint32_t shifted = magnitude << (23 - MantissaBits);
    const std::uint32_t normal = shifted + (static_cast<std::uint32_t>(127 - kBias) << 23);
    // An integer times a power of two, not a subnormal float: right also where the device flushes those to zero.
    const float subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * detail::power_of_two(1 - kBias - MantissaBits);
    const std::uint32_t finite = detail::select_bits(magnitude < (1u << MantissaBits), detail::float_to_bits(subnormal), normal);
    const std::uint32_t bits = detail::select_bits(magnitude > kLargestFinite, shifted | 0x7F80'0000u, finite);
    return detail::bits_to_float(bits | sign);
  }

  /// The code nearest to `value`, ties to even. NaN stays a (quiet) NaN with its sign and upper payload bits.
  KVPAGE_HD static constexpr std::uint32_t encode(float value) noexcept {
    const std::uint32_t bits = detail::float_to_bits(value);
    const std::uint32_t magnitude = bits & 0x7FFF'FFFFu;
    const std::uint32_t sign = (bits >> (31 - ExponentBits - MantissaBits)) & kSignBit;
    return sign | detail::select_bits(magnitude > 0x7F80'0000u, encode_nan(magnitude), encode_magnitude(magnitude));
  }

 private:
  KVPAGE_HD static constexpr std::uint32_t encode_nan(std::uint32_t magnitude) noexcept {
    if constexpr (Range == FloatRange::kSaturateOneNan) return kAllOnes;
    return kTopExponent | kQuietBit | ((magnitude & 0x007F'FFFFu) >> (23 - MantissaBits));
  }

  KVPAGE_HD static constexpr std::uint32_t encode_magnitude(std::uint32_t magnitude) noexcept {
    // The ulp of `anchor` is the spacing of the subnormal codes: the addition itself rounds to them, ties to even.
    constexpr float kAnchor = detail::power_of_two(24 - kBias - MantissaBits);
    constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
    const std::uint32_t subnormal = detail::float_to_bits(detail::bits_to_float(magnitude) + kAnchor) - detail::float_to_bits(kAnchor);

    constexpr int kDropped = 23 - MantissaBits;
    const std::uint32_t odd = (magnitude >> kDropped) & 1u;
    const std::uint32_t rounded = magnitude + ((1u << (kDropped - 1)) - 1) + odd;
    const std::uint32_t normal = (rounded >> kDropped) - (static_cast<std::uint32_t>(127 - kBias) << MantissaBits);

    constexpr std::uint32_t kOverflow = Range == FloatRange::kInfinity ? kTopExponent : kLargestFinite;
    const std::uint32_t code = detail::select_bits(magnitude < kLeastNormal, subnormal, normal);
    return detail::select_bits(code > kLargestFinite, kOverflow, code);
  }
};

/// The 16-bit IEEE format: 5 exponent bits, 10 mantissa bits. Scales inside weight blocks and KV pages are stored in it.
using HalfCodec = Minifloat<5, 10, FloatRange::kInfinity>;

/// Value of a 16-bit IEEE code. Takes exactly 16 bits: a float or a wider integer passed by mistake does not compile.
KVPAGE_HD constexpr float decode_half(std::same_as<std::uint16_t> auto code) noexcept { return HalfCodec::decode(code); }

/// The 16-bit IEEE code nearest to `value`, ties to even; overflow gives infinity.
KVPAGE_HD constexpr std::uint16_t encode_half(float value) noexcept {
  return static_cast<std::uint16_t>(HalfCodec::encode(value));
}

/// Value of an upper-half float (8 exponent bits, 7 mantissa bits): the float with these upper 16 bits.
KVPAGE_HD constexpr float decode_upper_half(std::same_as<std::uint16_t> auto code) noexcept {
  return detail::bits_to_float(static_cast<std::uint32_t>(code) << 16);
}

/// The upper-half float nearest to `value`, ties to even; overflow gives infinity, NaN stays a (quiet) NaN.
KVPAGE_HD constexpr std::uint16_t encode_upper_half(float value) noexcept {
  const std::uint32_t bits = detail::float_to_bits(value);
  if ((bits & 0x7FFF'FFFFu) > 0x7F80'0000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

KVPAGE_END_NAMESPACE
