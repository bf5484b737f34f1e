/// \file Dot products of one decoded weight row. No include guard: cpu_decoded.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/gemm/cpu_decoded.hpp>
#else

/// Adds the products of `count` weights [count] with `num_rows` <= kMaxRows rows of x to `sums` [kMaxRows, 16]:
/// element k goes to lane k % 16, ascending.
inline void add_row_products(const float* weights, std::int64_t count, const float* x, std::int64_t x_stride, std::int64_t num_rows,
                             float* sums) {
  for (std::int64_t m = 0; m < num_rows; ++m) {
    const float* row = x + m * x_stride;
    FloatLanes sum = load(sums + 16 * m);
    std::int64_t k = 0;
    for (; k + 16 <= count; k += 16) sum = fma(load(weights + k), load(row + k), sum);
    if (k < count) {
      const int rest = static_cast<int>(count - k);
      sum = fma(load_first(weights + k, rest), load_first(row + k, rest), sum);
    }
    store(sums + 16 * m, sum);
  }
}

inline float sum_lanes(const float* sums) { return reduce_add(load(sums)); }
#endif
