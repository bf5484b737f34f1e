/// \file The 16-lane vocabulary on pairs of ymm registers; see simd_generic.hpp for what each function does.
/// No include guard: included inside the regions of simd_avx2.hpp and simd_avxvnni.hpp, which add the byte dots.
#ifndef KVPAGE_LANES
#include <kvpage/exec/simd.hpp>
#else

struct FloatLanes {
  __m256 lo, hi;
};
struct IntLanes {
  __m256i lo, hi;
};
struct ByteLanes {
  __m256i lo, hi;
};
struct MaskLanes {
  __m256 lo, hi;
};

inline constexpr int kLaneRegisters = 8;

KVPAGE_LANES MaskLanes first_lanes(int count) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count), index)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), index))};
}

KVPAGE_LANES FloatLanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
KVPAGE_LANES FloatLanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
KVPAGE_LANES FloatLanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
KVPAGE_LANES FloatLanes load_first(const float* p, int count) {
  const MaskLanes m = first_lanes(count);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.lo)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi))};
}
KVPAGE_LANES void store(float* p, FloatLanes a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
KVPAGE_LANES void store_first(float* p, FloatLanes a, int count) {
  const MaskLanes m = first_lanes(count);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), a.lo);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), a.hi);
}
KVPAGE_LANES FloatLanes load_half(const std::uint16_t* p) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
KVPAGE_LANES void store_half(std::uint16_t* p, FloatLanes a) {
  auto* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
KVPAGE_LANES FloatLanes load_bfloat(const std::uint16_t* p) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1)), 16))};
}
template <int kExponentBits>
KVPAGE_LANES FloatLanes load_small_float(const std::uint8_t* p) {
  const __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  __m256i half = _mm256_slli_epi16(bytes, kExponentBits == 5 ? 8 : 7);
  if constexpr (kExponentBits == 4) {
    half = _mm256_and_si256(half, _mm256_set1_epi16(static_cast<short>(0xbf80)));
    // The next number after the largest one is NaN: its exponent becomes all ones.
    const __m256i after = _mm256_add_epi16(half, _mm256_set1_epi16(0x80));
    half = _mm256_or_si256(half, _mm256_and_si256(after, _mm256_set1_epi16(0x4000)));
  }
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}

KVPAGE_LANES FloatLanes add(FloatLanes a, FloatLanes b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
KVPAGE_LANES FloatLanes sub(FloatLanes a, FloatLanes b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
KVPAGE_LANES FloatLanes mul(FloatLanes a, FloatLanes b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
KVPAGE_LANES FloatLanes div(FloatLanes a, FloatLanes b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
KVPAGE_LANES FloatLanes sqrt(FloatLanes a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
KVPAGE_LANES FloatLanes fma(FloatLanes a, FloatLanes b, FloatLanes c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
KVPAGE_LANES FloatLanes fnma(FloatLanes a, FloatLanes b, FloatLanes c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
KVPAGE_LANES FloatLanes max(FloatLanes a, FloatLanes b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
KVPAGE_LANES FloatLanes min(FloatLanes a, FloatLanes b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
KVPAGE_LANES FloatLanes abs(FloatLanes a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
KVPAGE_LANES FloatLanes copy_sign(FloatLanes magnitude, FloatLanes sign) {
  const __m256 mask = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(mask, magnitude.lo), _mm256_and_ps(mask, sign.lo)),
          _mm256_or_ps(_mm256_andnot_ps(mask, magnitude.hi), _mm256_and_ps(mask, sign.hi))};
}

KVPAGE_LANES MaskLanes less(FloatLanes a, FloatLanes b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
KVPAGE_LANES MaskLanes equal(FloatLanes a, FloatLanes b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}
KVPAGE_LANES MaskLanes mask_from_bits(std::uint32_t bits) {
  const __m256i one = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i low = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), one);
  const __m256i high = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits >> 8)), one);
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(low, one)), _mm256_castsi256_ps(_mm256_cmpeq_epi32(high, one))};
}
KVPAGE_LANES std::uint32_t mask_bits(MaskLanes m) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(m.lo)) | static_cast<std::uint32_t>(_mm256_movemask_ps(m.hi)) << 8;
}
KVPAGE_LANES FloatLanes select(MaskLanes m, FloatLanes yes, FloatLanes no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}

KVPAGE_LANES IntLanes zero_int() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
KVPAGE_LANES IntLanes broadcast_int(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
KVPAGE_LANES IntLanes load_int(const std::int32_t* p) {
  const auto* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
KVPAGE_LANES void store_int(std::int32_t* p, IntLanes a) {
  auto* q = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(q, a.lo);
  _mm256_storeu_si256(q + 1, a.hi);
}
KVPAGE_LANES IntLanes load_s8(const std::int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes))};
}
KVPAGE_LANES IntLanes load_u8(const std::uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes))};
}
KVPAGE_LANES void store_s8(std::int8_t* p, IntLanes a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
KVPAGE_LANES IntLanes add_int(IntLanes a, IntLanes b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
KVPAGE_LANES IntLanes sub_int(IntLanes a, IntLanes b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
KVPAGE_LANES IntLanes and_int(IntLanes a, IntLanes b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
KVPAGE_LANES IntLanes max_int(IntLanes a, IntLanes b) { return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)}; }
template <int kBits>
KVPAGE_LANES IntLanes shift_left_int(IntLanes a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
template <int kBits>
KVPAGE_LANES IntLanes shift_right_int(IntLanes a) {
  return {_mm256_srai_epi32(a.lo, kBits), _mm256_srai_epi32(a.hi, kBits)};
}
KVPAGE_LANES FloatLanes to_float(IntLanes a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
KVPAGE_LANES IntLanes round_to_int(FloatLanes a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
KVPAGE_LANES IntLanes bits_of(FloatLanes a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
KVPAGE_LANES FloatLanes from_bits(IntLanes a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }

KVPAGE_LANES ByteLanes load_bytes(const void* p) {
  const auto* q = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
KVPAGE_LANES void store_bytes(void* p, ByteLanes a) {
  auto* q = static_cast<__m256i*>(p);
  _mm256_storeu_si256(q, a.lo);
  _mm256_storeu_si256(q + 1, a.hi);
}
KVPAGE_LANES ByteLanes load_transposed(const void* p, std::int64_t stride) {
  const auto row = [&](std::int64_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const char*>(p) + i * stride));
  };
  const __m128i low01 = _mm_unpacklo_epi8(row(0), row(1)), high01 = _mm_unpackhi_epi8(row(0), row(1));
  const __m128i low23 = _mm_unpacklo_epi8(row(2), row(3)), high23 = _mm_unpackhi_epi8(row(2), row(3));
  return {_mm256_set_m128i(_mm_unpackhi_epi16(low01, low23), _mm_unpacklo_epi16(low01, low23)),
          _mm256_set_m128i(_mm_unpackhi_epi16(high01, high23), _mm_unpacklo_epi16(high01, high23))};
}
KVPAGE_LANES ByteLanes broadcast_quad(const void* p) {
  std::int32_t quad;
  __builtin_memcpy(&quad, p, 4);
  const __m256i v = _mm256_set1_epi32(quad);
  return {v, v};
}
KVPAGE_LANES ByteLanes broadcast_byte(int x) {
  const __m256i v = _mm256_set1_epi8(static_cast<char>(x));
  return {v, v};
}
KVPAGE_LANES ByteLanes broadcast_table(const void* p) {
  const __m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  return {v, v};
}
KVPAGE_LANES ByteLanes and_bytes(ByteLanes a, ByteLanes b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
KVPAGE_LANES ByteLanes or_bytes(ByteLanes a, ByteLanes b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
KVPAGE_LANES ByteLanes merge_bytes(ByteLanes a, ByteLanes b, ByteLanes mask) { return or_bytes(a, and_bytes(b, mask)); }
template <int kBits>
KVPAGE_LANES ByteLanes shift_left_bytes(ByteLanes a) {
  return {_mm256_slli_epi16(a.lo, kBits), _mm256_slli_epi16(a.hi, kBits)};
}
template <int kBits>
KVPAGE_LANES ByteLanes shift_right_bytes(ByteLanes a) {
  return {_mm256_srli_epi16(a.lo, kBits), _mm256_srli_epi16(a.hi, kBits)};
}
KVPAGE_LANES ByteLanes lookup_bytes(ByteLanes table, ByteLanes index) {
  return {_mm256_shuffle_epi8(table.lo, index.lo), _mm256_shuffle_epi8(table.hi, index.hi)};
}
KVPAGE_LANES void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

KVPAGE_LANES __m256 low_half(FloatLanes a) { return a.lo; }
KVPAGE_LANES __m256 high_half(FloatLanes a) { return a.hi; }
KVPAGE_LANES __m256i low_half(IntLanes a) { return a.lo; }
KVPAGE_LANES __m256i high_half(IntLanes a) { return a.hi; }

namespace detail {
/// Squared errors of neighbouring values for `steps` in even words and for `steps` - 1 in odd ones.
template <int kSteps>
KVPAGE_LANES __m256i pair_errors(__m256i v) {
  // The low 16 bits of the product are what is left of the nearest integer.
  const __m256i more = _mm256_mullo_epi16(v, _mm256_set1_epi16(2 * kSteps));
  const __m256i less = _mm256_mullo_epi16(v, _mm256_set1_epi16(2 * kSteps - 2));
  const __m256i more_sums = _mm256_srli_epi32(_mm256_madd_epi16(more, more), 16);
  return _mm256_srli_epi16(_mm256_blend_epi16(more_sums, _mm256_madd_epi16(less, less), 0xaa), 4);
}
template <int kSteps>
KVPAGE_LANES __m256i pair_errors(__m256i v, __m256i w) {
  return _mm256_add_epi16(pair_errors<kSteps>(v), pair_errors<kSteps>(w));
}
}  // namespace detail

/// Word i: the sum of squared errors for kMostSteps - i steps, for least_error_steps.
KVPAGE_LANES __m128i error_sums(IntLanes low, IntLanes high) {
  const __m256i v = _mm256_packs_epi32(low.lo, low.hi), w = _mm256_packs_epi32(high.lo, high.hi);  // neighbours stay neighbours
  const __m256i a = detail::pair_errors<127>(v, w), b = detail::pair_errors<125>(v, w);
  const __m256i c = detail::pair_errors<123>(v, w), d = detail::pair_errors<121>(v, w);
  const __m256i ab = _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  const __m256i cd = _mm256_add_epi16(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
  const __m256i all = _mm256_add_epi16(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  return _mm_add_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}
#endif
