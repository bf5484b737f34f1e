/// \file The 16-lane vocabulary on AVX2 with AVX-VNNI: ymm byte dots in one instruction.
#pragma once

#include <kvpage/exec/isa.hpp>
#include <kvpage/exec/quantized_rows.hpp>

#if KVPAGE_ISA_X86
#include <immintrin.h>

KVPAGE_ISA_BEGIN_AVXVNNI
#include <kvpage/exec/simd_256_body.hpp>
#include <kvpage/exec/simd_reduce_body.hpp>
#include <kvpage/exec/simd_scale_body.hpp>

inline constexpr int kCenteredStart = -128;

KVPAGE_LANES IntLanes dot_codes(IntLanes acc, ByteLanes codes, ByteLanes x) {
  return {_mm256_dpbusd_avx_epi32(acc.lo, codes.lo, x.lo), _mm256_dpbusd_avx_epi32(acc.hi, codes.hi, x.hi)};
}
KVPAGE_LANES IntLanes dot_centered(IntLanes acc, ByteLanes codes, ByteLanes x) { return dot_codes(acc, codes, x); }

#include <kvpage/exec/simd_pairs_body.hpp>

KVPAGE_ISA_END
#endif
