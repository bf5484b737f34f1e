/// \file Rows of quantize_rows. No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/quantize_rows/cpu.hpp>
#else

/// Quantises `cols` values of one row.
inline void quantize_row(const float* x, std::int64_t cols, QuantizedGroup* groups) {
  for (; cols >= 32; cols -= 32, x += 32, ++groups) quantize_group(load(x), load(x + 16), groups);
  const int rest = static_cast<int>(cols);
  if (rest > 0) quantize_group(load_first(x, rest), rest > 16 ? load_first(x + 16, rest - 16) : zero(), groups);
}
#endif
