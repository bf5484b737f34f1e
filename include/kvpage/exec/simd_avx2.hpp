/// \file The 16-lane vocabulary on AVX2, FMA and F16C.
#pragma once

#include <kvpage/exec/isa.hpp>
#include <kvpage/exec/quantized_rows.hpp>

#if KVPAGE_ISA_X86
#include <immintrin.h>

KVPAGE_ISA_BEGIN_AVX2
#include <kvpage/exec/simd_256_body.hpp>
#include <kvpage/exec/simd_reduce_body.hpp>
#include <kvpage/exec/simd_scale_body.hpp>

inline constexpr int kCenteredStart = 0;

namespace detail {
KVPAGE_LANES __m256i add_dots(__m256i acc, __m256i codes, __m256i x) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1)));
}
/// |w| * (x with the sign of w): at most 2 * 128 * 127 = 32,512 per pair, so the 16-bit sums do not saturate.
KVPAGE_LANES __m256i add_centered(__m256i acc, __m256i codes, __m256i x) {
  const __m256i w = _mm256_xor_si256(codes, _mm256_set1_epi8(static_cast<char>(0x80)));
  return add_dots(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}
}  // namespace detail

KVPAGE_LANES IntLanes dot_codes(IntLanes acc, ByteLanes codes, ByteLanes x) {
  return {detail::add_dots(acc.lo, codes.lo, x.lo), detail::add_dots(acc.hi, codes.hi, x.hi)};
}
KVPAGE_LANES IntLanes dot_centered(IntLanes acc, ByteLanes codes, ByteLanes x) {
  return {detail::add_centered(acc.lo, codes.lo, x.lo), detail::add_centered(acc.hi, codes.hi, x.hi)};
}

/// See simd_pairs_body.hpp for what these do.
struct PairLanes {
  __m256i lo, hi;
};
inline constexpr bool kSumsPairs = true;

KVPAGE_LANES PairLanes zero_pairs() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
KVPAGE_LANES PairLanes dot_pairs(PairLanes acc, ByteLanes codes, ByteLanes x) {
  return {_mm256_add_epi16(acc.lo, _mm256_maddubs_epi16(codes.lo, x.lo)), _mm256_add_epi16(acc.hi, _mm256_maddubs_epi16(codes.hi, x.hi))};
}
KVPAGE_LANES IntLanes add_pairs(IntLanes acc, PairLanes pairs) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(pairs.lo, ones)), _mm256_add_epi32(acc.hi, _mm256_madd_epi16(pairs.hi, ones))};
}

KVPAGE_ISA_END
#endif
