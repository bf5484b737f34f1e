/// \file Rows of quantize_rows. No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/quantize_rows/cpu.hpp>
#else

/// Quantises `cols` values of one row with GroupScale::kSearched.
inline void quantize_row_searched(const float* x, std::int64_t cols, QuantizedGroup* groups) {
  constexpr std::int64_t kBlock = 32 * kSearchedGroups;
  for (; cols >= kBlock; cols -= kBlock, x += kBlock, groups += kSearchedGroups) quantize_searched(x, kSearchedGroups, groups);
  const int whole = static_cast<int>(cols / 32), rest = static_cast<int>(cols % 32);
  if (whole > 0) quantize_searched(x, whole, groups);
  if (rest == 0) return;
  float last[32];
  store(last, load_first(x + 32 * whole, rest));
  store(last + 16, rest > 16 ? load_first(x + 32 * whole + 16, rest - 16) : zero());
  quantize_searched(last, 1, groups + whole);
}

/// Quantises `cols` values of one row with GroupScale::kLargest.
inline void quantize_row(const float* x, std::int64_t cols, QuantizedGroup* groups) {
  for (; cols >= 32; cols -= 32, x += 32, ++groups) quantize_group(load(x), load(x + 16), groups);
  const int rest = static_cast<int>(cols);
  if (rest > 0) quantize_group(load_first(x, rest), rest > 16 ? load_first(x + 16, rest - 16) : zero(), groups);
}
#endif
