/// \file The 16-lane vocabulary on AVX-512 with VNNI; see simd_generic.hpp for what each function does.
#pragma once

#include <kvpage/exec/isa.hpp>
#include <kvpage/exec/quantized_rows.hpp>

#if KVPAGE_ISA_X86
#include <immintrin.h>

KVPAGE_ISA_BEGIN_AVX512VNNI

struct FloatLanes {
  __m512 v;
};
struct IntLanes {
  __m512i v;
};
struct ByteLanes {
  __m512i v;
};
struct MaskLanes {
  __mmask16 v;
};

inline constexpr int kLaneRegisters = 32;
inline constexpr int kCenteredStart = -128;

KVPAGE_LANES __mmask16 first_bits(int count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : (1u << count) - 1u);
}

KVPAGE_LANES FloatLanes zero() { return {_mm512_setzero_ps()}; }
KVPAGE_LANES FloatLanes broadcast(float x) { return {_mm512_set1_ps(x)}; }
KVPAGE_LANES FloatLanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
KVPAGE_LANES FloatLanes load_first(const float* p, int count) { return {_mm512_maskz_loadu_ps(first_bits(count), p)}; }
KVPAGE_LANES void store(float* p, FloatLanes a) { _mm512_storeu_ps(p, a.v); }
KVPAGE_LANES void store_first(float* p, FloatLanes a, int count) { _mm512_mask_storeu_ps(p, first_bits(count), a.v); }
KVPAGE_LANES FloatLanes load_half(const std::uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
KVPAGE_LANES void store_half(std::uint16_t* p, FloatLanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
KVPAGE_LANES FloatLanes load_bfloat(const std::uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
template <int kExponentBits>
KVPAGE_LANES FloatLanes load_small_float(const std::uint8_t* p) {
  const __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  if constexpr (kExponentBits == 5) return {_mm512_cvtph_ps(_mm256_slli_epi16(bytes, 8))};
  const __m256i half = _mm256_and_si256(_mm256_slli_epi16(bytes, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  // The next number after the largest one is NaN: its exponent becomes all ones.
  const __m256i after = _mm256_add_epi16(half, _mm256_set1_epi16(0x80));
  return {_mm512_cvtph_ps(_mm256_ternarylogic_epi32(half, after, _mm256_set1_epi16(0x4000), 0xf8))};
}

KVPAGE_LANES FloatLanes add(FloatLanes a, FloatLanes b) { return {_mm512_add_ps(a.v, b.v)}; }
KVPAGE_LANES FloatLanes sub(FloatLanes a, FloatLanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
KVPAGE_LANES FloatLanes mul(FloatLanes a, FloatLanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
KVPAGE_LANES FloatLanes div(FloatLanes a, FloatLanes b) { return {_mm512_div_ps(a.v, b.v)}; }
KVPAGE_LANES FloatLanes sqrt(FloatLanes a) { return {_mm512_sqrt_ps(a.v)}; }
KVPAGE_LANES FloatLanes fma(FloatLanes a, FloatLanes b, FloatLanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
KVPAGE_LANES FloatLanes fnma(FloatLanes a, FloatLanes b, FloatLanes c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
KVPAGE_LANES FloatLanes max(FloatLanes a, FloatLanes b) { return {_mm512_max_ps(a.v, b.v)}; }
KVPAGE_LANES FloatLanes min(FloatLanes a, FloatLanes b) { return {_mm512_min_ps(a.v, b.v)}; }
KVPAGE_LANES FloatLanes abs(FloatLanes a) { return {_mm512_abs_ps(a.v)}; }
KVPAGE_LANES FloatLanes copy_sign(FloatLanes magnitude, FloatLanes sign) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  // 0xd8: for every bit, c ? b : a.
  return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(magnitude.v), _mm512_castps_si512(sign.v), mask, 0xd8))};
}

KVPAGE_LANES MaskLanes less(FloatLanes a, FloatLanes b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
KVPAGE_LANES MaskLanes equal(FloatLanes a, FloatLanes b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
KVPAGE_LANES MaskLanes first_lanes(int count) { return {first_bits(count)}; }
KVPAGE_LANES MaskLanes mask_from_bits(std::uint32_t bits) { return {static_cast<__mmask16>(bits)}; }
KVPAGE_LANES std::uint32_t mask_bits(MaskLanes m) { return m.v; }
KVPAGE_LANES FloatLanes select(MaskLanes m, FloatLanes yes, FloatLanes no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }

KVPAGE_LANES IntLanes zero_int() { return {_mm512_setzero_si512()}; }
KVPAGE_LANES IntLanes broadcast_int(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
KVPAGE_LANES IntLanes load_int(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
KVPAGE_LANES void store_int(std::int32_t* p, IntLanes a) { _mm512_storeu_si512(p, a.v); }
KVPAGE_LANES IntLanes load_s8(const std::int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
KVPAGE_LANES IntLanes load_u8(const std::uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
KVPAGE_LANES void store_s8(std::int8_t* p, IntLanes a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
KVPAGE_LANES IntLanes add_int(IntLanes a, IntLanes b) { return {_mm512_add_epi32(a.v, b.v)}; }
KVPAGE_LANES IntLanes sub_int(IntLanes a, IntLanes b) { return {_mm512_sub_epi32(a.v, b.v)}; }
KVPAGE_LANES IntLanes and_int(IntLanes a, IntLanes b) { return {_mm512_and_si512(a.v, b.v)}; }
KVPAGE_LANES IntLanes max_int(IntLanes a, IntLanes b) { return {_mm512_max_epi32(a.v, b.v)}; }
template <int kBits>
KVPAGE_LANES IntLanes shift_left_int(IntLanes a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
KVPAGE_LANES IntLanes shift_right_int(IntLanes a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}
KVPAGE_LANES FloatLanes to_float(IntLanes a) { return {_mm512_cvtepi32_ps(a.v)}; }
KVPAGE_LANES IntLanes round_to_int(FloatLanes a) { return {_mm512_cvtps_epi32(a.v)}; }
KVPAGE_LANES IntLanes bits_of(FloatLanes a) { return {_mm512_castps_si512(a.v)}; }
/// See simd_scale_body.hpp for what this does.
KVPAGE_LANES FloatLanes scale_by_power(FloatLanes a, FloatLanes n) { return {_mm512_scalef_ps(a.v, n.v)}; }
KVPAGE_LANES FloatLanes from_bits(IntLanes a) { return {_mm512_castsi512_ps(a.v)}; }

KVPAGE_LANES ByteLanes load_bytes(const void* p) { return {_mm512_loadu_si512(p)}; }
KVPAGE_LANES void store_bytes(void* p, ByteLanes a) { _mm512_storeu_si512(p, a.v); }
KVPAGE_LANES ByteLanes load_transposed(const void* p, std::int64_t stride) {
  const auto row = [&](std::int64_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const char*>(p) + i * stride));
  };
  __m512i rows = _mm512_inserti32x4(_mm512_castsi128_si512(row(0)), row(1), 1);
  rows = _mm512_inserti32x4(_mm512_inserti32x4(rows, row(2), 2), row(3), 3);
  // Words i of the four rows side by side, then their bytes.
  const __m512i words = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), rows);
  return {_mm512_shuffle_epi8(words, _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400))};
}
KVPAGE_LANES ByteLanes broadcast_quad(const void* p) {
  std::int32_t quad;
  __builtin_memcpy(&quad, p, 4);
  return {_mm512_set1_epi32(quad)};
}
KVPAGE_LANES ByteLanes broadcast_byte(int x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
KVPAGE_LANES ByteLanes broadcast_table(const void* p) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
KVPAGE_LANES ByteLanes and_bytes(ByteLanes a, ByteLanes b) { return {_mm512_and_si512(a.v, b.v)}; }
KVPAGE_LANES ByteLanes or_bytes(ByteLanes a, ByteLanes b) { return {_mm512_or_si512(a.v, b.v)}; }
/// a | (b & mask): one vpternlog.
KVPAGE_LANES ByteLanes merge_bytes(ByteLanes a, ByteLanes b, ByteLanes mask) {
  return {_mm512_ternarylogic_epi32(a.v, b.v, mask.v, 0xf8)};
}
template <int kBits>
KVPAGE_LANES ByteLanes shift_left_bytes(ByteLanes a) {
  return {_mm512_slli_epi16(a.v, kBits)};
}
template <int kBits>
KVPAGE_LANES ByteLanes shift_right_bytes(ByteLanes a) {
  return {_mm512_srli_epi16(a.v, kBits)};
}
KVPAGE_LANES ByteLanes lookup_bytes(ByteLanes table, ByteLanes index) { return {_mm512_shuffle_epi8(table.v, index.v)}; }
KVPAGE_LANES IntLanes dot_codes(IntLanes acc, ByteLanes codes, ByteLanes x) { return {_mm512_dpbusd_epi32(acc.v, codes.v, x.v)}; }
KVPAGE_LANES IntLanes dot_centered(IntLanes acc, ByteLanes codes, ByteLanes x) { return {_mm512_dpbusd_epi32(acc.v, codes.v, x.v)}; }
KVPAGE_LANES void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

/// The two 8-lane halves, for reductions.
KVPAGE_LANES __m256 low_half(FloatLanes a) { return _mm512_castps512_ps256(a.v); }
KVPAGE_LANES __m256 high_half(FloatLanes a) { return _mm512_extractf32x8_ps(a.v, 1); }
KVPAGE_LANES __m256i low_half(IntLanes a) { return _mm512_castsi512_si256(a.v); }
KVPAGE_LANES __m256i high_half(IntLanes a) { return _mm512_extracti32x8_epi32(a.v, 1); }

namespace detail {
/// Squared errors of neighbouring values for `steps` in even words and for `steps` - 1 in odd ones.
template <int kSteps>
KVPAGE_LANES __m512i pair_errors(__m512i v) {
  // The low 16 bits of the product are what is left of the nearest integer.
  const __m512i more = _mm512_mullo_epi16(v, _mm512_set1_epi16(2 * kSteps));
  const __m512i less = _mm512_mullo_epi16(v, _mm512_set1_epi16(2 * kSteps - 2));
  const __m512i more_sums = _mm512_srli_epi32(_mm512_madd_epi16(more, more), 16);
  return _mm512_srli_epi16(_mm512_mask_blend_epi16(0xaaaaaaaau, more_sums, _mm512_madd_epi16(less, less)), 4);
}
}  // namespace detail

/// Word i: the sum of squared errors for kMostSteps - i steps, for least_error_steps.
KVPAGE_LANES __m128i error_sums(IntLanes low, IntLanes high) {
  const __m512i v = _mm512_packs_epi32(low.v, high.v);  // in another order, but neighbours stay neighbours
  const __m512i a = detail::pair_errors<127>(v), b = detail::pair_errors<125>(v);
  const __m512i c = detail::pair_errors<123>(v), d = detail::pair_errors<121>(v);
  const __m512i ab = _mm512_add_epi16(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi16(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  const __m512i all = _mm512_add_epi16(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half = _mm256_add_epi16(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_add_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

#include <kvpage/exec/simd_reduce_body.hpp>

#include <kvpage/exec/simd_pairs_body.hpp>

KVPAGE_ISA_END
#endif
