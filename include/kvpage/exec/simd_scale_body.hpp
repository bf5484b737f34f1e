/// \file Products with powers of two on paths that have no instruction for them.
/// No include guard: included inside the regions of simd_generic.hpp, simd_avx2.hpp and simd_avxvnni.hpp.
#ifndef KVPAGE_LANES
#include <kvpage/exec/simd.hpp>
#else

/// a * 2^n, rounded once; n is an integer in [-252, 254]. Requires: |a| is in [1/2, 2), or NaN.
KVPAGE_LANES FloatLanes scale_by_power(FloatLanes a, FloatLanes n) {
  // Two factors, so that neither leaves the range of normal floats.
  const IntLanes whole = round_to_int(n);
  const IntLanes half = shift_right_int<1>(whole);
  const IntLanes bias = broadcast_int(127);
  const FloatLanes first = from_bits(shift_left_int<23>(add_int(half, bias)));
  const FloatLanes second = from_bits(shift_left_int<23>(add_int(sub_int(whole, half), bias)));
  return mul(mul(a, first), second);
}
#endif
