/// \file Fixed-order reductions of the x86 vocabularies: lane i meets lane i + 8, then + 4, + 2, + 1.
/// No include guard: included inside the regions of simd_avx2.hpp, simd_avxvnni.hpp and simd_avx512vnni.hpp.
#ifndef KVPAGE_LANES
#include <kvpage/exec/simd.hpp>
#else

KVPAGE_LANES float reduce_add(FloatLanes a) {
  const __m256 eight = _mm256_add_ps(low_half(a), high_half(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

KVPAGE_LANES float reduce_max(FloatLanes a) {
  const __m256 eight = _mm256_max_ps(low_half(a), high_half(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

KVPAGE_LANES std::int32_t reduce_add_int(IntLanes a) {
  const __m256i eight = _mm256_add_epi32(low_half(a), high_half(a));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}

KVPAGE_LANES std::int32_t reduce_max_int(IntLanes a) {
  const __m256i eight = _mm256_max_epi32(low_half(a), high_half(a));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1)));
}

/// See simd_search_body.hpp for what this does: all 8 sums at once, in 16 bits, where they fit.
KVPAGE_LANES int least_error_steps(IntLanes low, IntLanes high) {
  const __m128i weights = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kStepWeights));
  return kMostSteps - _mm_extract_epi16(_mm_minpos_epu16(_mm_mulhi_epu16(error_sums(low, high), weights)), 1);
}
#endif
