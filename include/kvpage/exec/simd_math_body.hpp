/// \file exp, tanh, silu and gelu on 16 lanes: the same bits on every instruction set, no libm.
/// No include guard: simd.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/exec/simd.hpp>
#else

namespace detail {
/// exp(x) = 2^n * (1 + p): n an integer, |x - n ln 2| <= ln 2 / 2.
struct ExpParts {
  FloatLanes n;
  FloatLanes p;
};

/// Requires: |x| <= 105. NaN gives p = NaN.
KVPAGE_LANES ExpParts exp_parts(FloatLanes x) {
  const FloatLanes magic = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const FloatLanes n = sub(fma(x, broadcast(0x1.715476p+0f), magic), magic);
  const FloatLanes r_high = fnma(n, broadcast(0x1.62e4p-1f), x);  // ln 2 in two parts; n times the first is exact
  const FloatLanes r = fnma(n, broadcast(0x1.7f7d1cp-20f), r_high);
  FloatLanes q = broadcast(0.00139262154f);  // (exp(r) - 1 - r) / r^2, interpolated at Chebyshev nodes: error 1e-8
  q = fma(q, r, broadcast(0.00836320297f));
  q = fma(q, r, broadcast(0.0416665544f));
  q = fma(q, r, broadcast(0.166665768f));
  q = fma(q, r, broadcast(0.5f));
  return {n, fma(mul(r, r), q, r)};
}

/// 2^n for an integer n in [-126, 127].
KVPAGE_LANES FloatLanes power_of_two(FloatLanes n) {
  return from_bits(shift_left_int<23>(add_int(round_to_int(n), broadcast_int(127))));
}
}  // namespace detail

/// e^x, error at most 2 ulp; subnormal results, 0 and infinity as IEEE rounds them; exp(0) == 1; NaN stays NaN.
KVPAGE_LANES FloatLanes exp(FloatLanes x) {
  const FloatLanes clamped = max(broadcast(-104.0f), min(broadcast(89.0f), x));
  const detail::ExpParts parts = detail::exp_parts(clamped);
  return scale_by_power(add(broadcast(1.0f), parts.p), parts.n);
}

/// tanh(x) = e / (e + 2) with e = exp(2|x|) - 1, which has no cancellation near 0.
KVPAGE_LANES FloatLanes tanh(FloatLanes x) {
  const FloatLanes doubled = min(broadcast(40.0f), mul(broadcast(2.0f), abs(x)));
  const detail::ExpParts parts = detail::exp_parts(doubled);
  const FloatLanes scale = detail::power_of_two(parts.n);
  const FloatLanes e = fma(scale, parts.p, sub(scale, broadcast(1.0f)));
  return copy_sign(div(e, add(e, broadcast(2.0f))), x);
}

/// 1 / (1 + e^-x)
KVPAGE_LANES FloatLanes sigmoid(FloatLanes x) {
  return div(broadcast(1.0f), add(broadcast(1.0f), exp(sub(zero(), x))));
}

/// x * sigmoid(x)
KVPAGE_LANES FloatLanes silu(FloatLanes x) { return div(x, add(broadcast(1.0f), exp(sub(zero(), x)))); }

/// The tanh form of GELU, x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3), as x * sigmoid(2u).
/// Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
KVPAGE_LANES FloatLanes gelu(FloatLanes x) {
  const FloatLanes cubic = fma(mul(mul(x, x), broadcast(0.044715f)), x, x);
  return div(x, add(broadcast(1.0f), exp(mul(cubic, broadcast(-1.59576912f)))));
}
#endif
