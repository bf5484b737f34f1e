/// \file The 16-lane vocabulary that kernels are written in, as plain loops: the reference of all other paths.
///
/// Every instruction set offers these names in its own namespace (generic, avx2, avxvnni, avx512vnni) and gives the same
/// bits for the same operands. FloatLanes and IntLanes hold 16 elements; ByteLanes holds 64 bytes, that is 16 lanes of 4.
/// Kernel bodies are compiled once per instruction set: see isa.hpp for how.
#pragma once

#include <kvpage/exec/isa.hpp>
#include <kvpage/exec/quantized_rows.hpp>

#include <bit>
#include <cmath>
#include <cstring>

KVPAGE_ISA_BEGIN_GENERIC

/// 16 floats.
struct FloatLanes {
  float v[16];
};
/// 16 signed 32-bit integers.
struct IntLanes {
  std::int32_t v[16];
};
/// 64 bytes; lane i is bytes 4i .. 4i + 3.
struct ByteLanes {
  std::uint8_t v[64];
};
/// 16 truth values.
struct MaskLanes {
  bool v[16];
};

/// How many values of 16 lanes the registers hold (few here: loops over memory gain nothing from large tiles).
inline constexpr int kLaneRegisters = 4;

/// dot_centered sums (code - 128) * x if its accumulator starts at kCenteredStart * sum(x).
inline constexpr int kCenteredStart = -128;

namespace detail {
template <class Out, class Fn>
KVPAGE_LANES Out each(Fn&& fn) {
  Out out;
  for (int i = 0; i < 16; ++i) out.v[i] = fn(i);
  return out;
}
template <class Fn>
KVPAGE_LANES ByteLanes each_byte(Fn&& fn) {
  ByteLanes out;
  for (int i = 0; i < 64; ++i) out.v[i] = static_cast<std::uint8_t>(fn(i));
  return out;
}

/// IEEE half to float; a signalling NaN becomes quiet, as the processor does it.
inline float widen_half(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t exponent = h >> 10 & 31u;
  const std::uint32_t fraction = h & 1023u;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13 | (fraction != 0 ? 0x400000u : 0u));
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

/// Float to IEEE half, to nearest even.
inline std::uint16_t narrow_half(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 2^16 and more: infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: the sum with 0.5 rounds at the unit of subnormals, 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}
}  // namespace detail

// ---- floats ----
KVPAGE_LANES FloatLanes broadcast(float x) { return detail::each<FloatLanes>([&](int) { return x; }); }
KVPAGE_LANES FloatLanes zero() { return broadcast(0.0f); }
/// 16 floats from p, of any alignment.
KVPAGE_LANES FloatLanes load(const float* p) { return detail::each<FloatLanes>([&](int i) { return p[i]; }); }
/// The first `count` floats from p (0..16 or more); other lanes 0, their memory is not touched.
KVPAGE_LANES FloatLanes load_first(const float* p, int count) {
  return detail::each<FloatLanes>([&](int i) { return i < count ? p[i] : 0.0f; });
}
KVPAGE_LANES void store(float* p, FloatLanes a) { std::memcpy(p, a.v, sizeof a.v); }
/// Stores the first `count` lanes (0..16 or more) and nothing else.
KVPAGE_LANES void store_first(float* p, FloatLanes a, int count) {
  for (int i = 0; i < 16 && i < count; ++i) p[i] = a.v[i];
}
/// 16 IEEE halves, widened.
KVPAGE_LANES FloatLanes load_half(const std::uint16_t* p) {
  return detail::each<FloatLanes>([&](int i) { return detail::widen_half(p[i]); });
}
/// Narrowed to 16 IEEE halves, to nearest even.
KVPAGE_LANES void store_half(std::uint16_t* p, FloatLanes a) {
  for (int i = 0; i < 16; ++i) p[i] = detail::narrow_half(a.v[i]);
}
/// 16 bfloats (the upper halves of floats), widened.
KVPAGE_LANES FloatLanes load_bfloat(const std::uint16_t* p) {
  return detail::each<FloatLanes>([&](int i) { return std::bit_cast<float>(static_cast<std::uint32_t>(p[i]) << 16); });
}
/// 16 codes of the 8-bit formats. With 5 exponent bits the code is the upper byte of an IEEE half. With 4 this is the value times
/// 2^-8, as a half's exponent bias is 8 larger; all ones is NaN, and there is no infinity.
/// Source: OCP 8-bit Floating Point Specification, revision 1.0.
template <int kExponentBits>
KVPAGE_LANES FloatLanes load_small_float(const std::uint8_t* p) {
  return detail::each<FloatLanes>([&](int i) {
    if constexpr (kExponentBits == 5) return detail::widen_half(static_cast<std::uint16_t>(p[i] << 8));
    const std::uint32_t magnitude = p[i] & 0x7fu;
    return detail::widen_half(static_cast<std::uint16_t>((p[i] & 0x80u) << 8 | magnitude << 7 | (magnitude == 0x7fu ? 0x4000u : 0u)));
  });
}

KVPAGE_LANES FloatLanes add(FloatLanes a, FloatLanes b) { return detail::each<FloatLanes>([&](int i) { return a.v[i] + b.v[i]; }); }
KVPAGE_LANES FloatLanes sub(FloatLanes a, FloatLanes b) { return detail::each<FloatLanes>([&](int i) { return a.v[i] - b.v[i]; }); }
KVPAGE_LANES FloatLanes mul(FloatLanes a, FloatLanes b) { return detail::each<FloatLanes>([&](int i) { return a.v[i] * b.v[i]; }); }
KVPAGE_LANES FloatLanes div(FloatLanes a, FloatLanes b) { return detail::each<FloatLanes>([&](int i) { return a.v[i] / b.v[i]; }); }
KVPAGE_LANES FloatLanes sqrt(FloatLanes a) { return detail::each<FloatLanes>([&](int i) { return std::sqrt(a.v[i]); }); }
/// a * b + c, rounded once.
KVPAGE_LANES FloatLanes fma(FloatLanes a, FloatLanes b, FloatLanes c) {
  return detail::each<FloatLanes>([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
/// c - a * b, rounded once.
KVPAGE_LANES FloatLanes fnma(FloatLanes a, FloatLanes b, FloatLanes c) {
  return detail::each<FloatLanes>([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
}
/// a > b ? a : b, so b when either is NaN.
KVPAGE_LANES FloatLanes max(FloatLanes a, FloatLanes b) {
  return detail::each<FloatLanes>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
/// a < b ? a : b, so b when either is NaN.
KVPAGE_LANES FloatLanes min(FloatLanes a, FloatLanes b) {
  return detail::each<FloatLanes>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
KVPAGE_LANES FloatLanes abs(FloatLanes a) { return detail::each<FloatLanes>([&](int i) { return std::fabs(a.v[i]); }); }
KVPAGE_LANES FloatLanes copy_sign(FloatLanes magnitude, FloatLanes sign) {
  return detail::each<FloatLanes>([&](int i) { return std::copysign(magnitude.v[i], sign.v[i]); });
}

// ---- masks ----
KVPAGE_LANES MaskLanes less(FloatLanes a, FloatLanes b) { return detail::each<MaskLanes>([&](int i) { return a.v[i] < b.v[i]; }); }
KVPAGE_LANES MaskLanes equal(FloatLanes a, FloatLanes b) { return detail::each<MaskLanes>([&](int i) { return a.v[i] == b.v[i]; }); }
/// Lanes below `count`.
KVPAGE_LANES MaskLanes first_lanes(int count) { return detail::each<MaskLanes>([&](int i) { return i < count; }); }
/// Lane i is bit i.
KVPAGE_LANES MaskLanes mask_from_bits(std::uint32_t bits) {
  return detail::each<MaskLanes>([&](int i) { return (bits >> i & 1u) != 0; });
}
KVPAGE_LANES std::uint32_t mask_bits(MaskLanes m) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) bits |= static_cast<std::uint32_t>(m.v[i]) << i;
  return bits;
}
KVPAGE_LANES FloatLanes select(MaskLanes m, FloatLanes yes, FloatLanes no) {
  return detail::each<FloatLanes>([&](int i) { return m.v[i] ? yes.v[i] : no.v[i]; });
}

// ---- integers ----
KVPAGE_LANES IntLanes broadcast_int(std::int32_t x) { return detail::each<IntLanes>([&](int) { return x; }); }
KVPAGE_LANES IntLanes zero_int() { return broadcast_int(0); }
KVPAGE_LANES IntLanes load_int(const std::int32_t* p) { return detail::each<IntLanes>([&](int i) { return p[i]; }); }
KVPAGE_LANES void store_int(std::int32_t* p, IntLanes a) { std::memcpy(p, a.v, sizeof a.v); }
/// 16 signed (unsigned) bytes, widened.
KVPAGE_LANES IntLanes load_s8(const std::int8_t* p) { return detail::each<IntLanes>([&](int i) { return std::int32_t{p[i]}; }); }
KVPAGE_LANES IntLanes load_u8(const std::uint8_t* p) { return detail::each<IntLanes>([&](int i) { return std::int32_t{p[i]}; }); }
/// Stores 16 bytes. Requires: every lane in [-128, 127].
KVPAGE_LANES void store_s8(std::int8_t* p, IntLanes a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(a.v[i]);
}
KVPAGE_LANES IntLanes add_int(IntLanes a, IntLanes b) { return detail::each<IntLanes>([&](int i) { return a.v[i] + b.v[i]; }); }
KVPAGE_LANES IntLanes sub_int(IntLanes a, IntLanes b) { return detail::each<IntLanes>([&](int i) { return a.v[i] - b.v[i]; }); }
KVPAGE_LANES IntLanes and_int(IntLanes a, IntLanes b) { return detail::each<IntLanes>([&](int i) { return a.v[i] & b.v[i]; }); }
KVPAGE_LANES IntLanes max_int(IntLanes a, IntLanes b) {
  return detail::each<IntLanes>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
template <int kBits>
KVPAGE_LANES IntLanes shift_left_int(IntLanes a) {
  return detail::each<IntLanes>([&](int i) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) << kBits); });
}
/// Arithmetic shift.
template <int kBits>
KVPAGE_LANES IntLanes shift_right_int(IntLanes a) {
  return detail::each<IntLanes>([&](int i) { return a.v[i] >> kBits; });
}
KVPAGE_LANES FloatLanes to_float(IntLanes a) { return detail::each<FloatLanes>([&](int i) { return static_cast<float>(a.v[i]); }); }
/// To the nearest integer, ties to even. Requires: |a| <= 2^22 (then adding 1.5 * 2^23 rounds at the unit).
KVPAGE_LANES IntLanes round_to_int(FloatLanes a) {
  return detail::each<IntLanes>([&](int i) { return static_cast<std::int32_t>((a.v[i] + 12582912.0f) - 12582912.0f); });
}
KVPAGE_LANES IntLanes bits_of(FloatLanes a) { return std::bit_cast<IntLanes>(a); }
KVPAGE_LANES FloatLanes from_bits(IntLanes a) { return std::bit_cast<FloatLanes>(a); }

// ---- bytes ----
KVPAGE_LANES ByteLanes load_bytes(const void* p) {
  ByteLanes out;
  std::memcpy(out.v, p, 64);
  return out;
}
KVPAGE_LANES void store_bytes(void* p, ByteLanes a) { std::memcpy(p, a.v, 64); }
/// Lane i: bytes i of the four rows of 16 bytes at p, p + stride, ..
KVPAGE_LANES ByteLanes load_transposed(const void* p, std::int64_t stride) {
  return detail::each_byte([&](int i) { return static_cast<const std::uint8_t*>(p)[i % 4 * stride + i / 4]; });
}
/// The 4 bytes at p in every lane.
KVPAGE_LANES ByteLanes broadcast_quad(const void* p) {
  std::uint8_t quad[4];
  std::memcpy(quad, p, 4);
  return detail::each_byte([&](int i) { return quad[i % 4]; });
}
KVPAGE_LANES ByteLanes broadcast_byte(int x) { return detail::each_byte([&](int) { return x; }); }
/// The 16 bytes at p four times: a table for lookup_bytes.
KVPAGE_LANES ByteLanes broadcast_table(const void* p) {
  std::uint8_t table[16];
  std::memcpy(table, p, 16);
  return detail::each_byte([&](int i) { return table[i % 16]; });
}
KVPAGE_LANES ByteLanes and_bytes(ByteLanes a, ByteLanes b) { return detail::each_byte([&](int i) { return a.v[i] & b.v[i]; }); }
KVPAGE_LANES ByteLanes or_bytes(ByteLanes a, ByteLanes b) { return detail::each_byte([&](int i) { return a.v[i] | b.v[i]; }); }
/// a | (b & mask)
KVPAGE_LANES ByteLanes merge_bytes(ByteLanes a, ByteLanes b, ByteLanes mask) {
  return detail::each_byte([&](int i) { return a.v[i] | (b.v[i] & mask.v[i]); });
}
/// Shifts every byte; the bits that come in from outside are not defined (neighbour bytes on other paths): mask them.
template <int kBits>
KVPAGE_LANES ByteLanes shift_left_bytes(ByteLanes a) {
  return detail::each_byte([&](int i) { return a.v[i] << kBits; });
}
template <int kBits>
KVPAGE_LANES ByteLanes shift_right_bytes(ByteLanes a) {
  return detail::each_byte([&](int i) { return a.v[i] >> kBits; });
}
/// table[index] per byte. Requires: index < 16.
KVPAGE_LANES ByteLanes lookup_bytes(ByteLanes table, ByteLanes index) {
  return detail::each_byte([&](int i) { return table.v[i / 16 * 16 + index.v[i]]; });
}
/// acc + sum over the 4 bytes of each lane of code * x, code unsigned, x signed.
/// Requires: codes <= 127, x in [-127, 127] (beyond that the 16-bit pairs of avx2 would saturate).
KVPAGE_LANES IntLanes dot_codes(IntLanes acc, ByteLanes codes, ByteLanes x) {
  return detail::each<IntLanes>([&](int i) {
    std::int32_t sum = acc.v[i];
    for (int c = 4 * i; c < 4 * i + 4; ++c) sum += std::int32_t{codes.v[c]} * static_cast<std::int8_t>(x.v[c]);
    return sum;
  });
}
/// For codes of all 8 bits: acc + sum of (code - 128) * x, less kCenteredStart * sum(x), which the caller puts into the
/// first acc. Requires: x in [-127, 127].
KVPAGE_LANES IntLanes dot_centered(IntLanes acc, ByteLanes codes, ByteLanes x) { return dot_codes(acc, codes, x); }

/// Asks for the cache line of p.
KVPAGE_LANES void prefetch(const void*) {}

// ---- reductions, in the fixed order: lane i meets lane i + 8, then + 4, + 2, + 1 ----
namespace detail {
template <class Value, class Fn>
KVPAGE_LANES Value fold(const Value (&v)[16], Fn&& fn) {
  Value t[16];
  std::memcpy(t, v, sizeof t);
  for (int width = 8; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) t[i] = fn(t[i], t[i + width]);
  }
  return t[0];
}
}  // namespace detail
KVPAGE_LANES float reduce_add(FloatLanes a) { return detail::fold(a.v, [](float x, float y) { return x + y; }); }
KVPAGE_LANES float reduce_max(FloatLanes a) { return detail::fold(a.v, [](float x, float y) { return x > y ? x : y; }); }
KVPAGE_LANES std::int32_t reduce_add_int(IntLanes a) {
  return detail::fold(a.v, [](std::int32_t x, std::int32_t y) { return x + y; });
}
KVPAGE_LANES std::int32_t reduce_max_int(IntLanes a) {
  return detail::fold(a.v, [](std::int32_t x, std::int32_t y) { return x > y ? x : y; });
}

#include <kvpage/exec/simd_pairs_body.hpp>
#include <kvpage/exec/simd_scale_body.hpp>
#include <kvpage/exec/simd_search_body.hpp>

KVPAGE_ISA_END_GENERIC
