/// \file Rows of quantize_rows. No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/quantize_rows/cpu.hpp>
#else

/// Quantises `cols` values of one row.
inline void quantize_row(const float* x, std::int64_t cols, QuantizedGroup* groups) {
  for (std::int64_t c = 0; c < cols; c += 32, ++groups) {
    const int count = cols - c < 32 ? static_cast<int>(cols - c) : 32;
    const int high = count > 16 ? count - 16 : 0;
    quantize_group(load_first(x + c, count), high > 0 ? load_first(x + c + 16, high) : zero(), groups);
  }
}
#endif
