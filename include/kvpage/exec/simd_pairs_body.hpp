/// \file Sums of pairs on paths where one instruction is a dot: there they are the lanes themselves.
/// No include guard: included inside the regions of simd_generic.hpp, simd_avxvnni.hpp and simd_avx512vnni.hpp.
#ifndef KVPAGE_LANES
#include <kvpage/exec/simd.hpp>
#else

/// Sums of dot_codes over several quads before they are added to lanes: on avx2 two sums of 16 bits per lane, elsewhere one of 32.
using PairLanes = IntLanes;
/// Whether that is the faster way.
inline constexpr bool kSumsPairs = false;

KVPAGE_LANES PairLanes zero_pairs() { return zero_int(); }
/// Requires: the sums of two neighbouring products, over all quads that are added, stay within 16 bits.
KVPAGE_LANES PairLanes dot_pairs(PairLanes acc, ByteLanes codes, ByteLanes x) { return dot_codes(acc, codes, x); }
KVPAGE_LANES IntLanes add_pairs(IntLanes acc, PairLanes pairs) { return add_int(acc, pairs); }
#endif
