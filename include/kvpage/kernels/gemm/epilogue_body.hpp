/// \file What happens to finished sums. No include guard: epilogue.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/gemm/epilogue.hpp>
#else

/// The contract is StoreBlock.
inline void store_block(const float* sums, std::int64_t num_rows, std::int64_t num_cols, const float* bias, float* out,
                        std::int64_t out_stride, bool accumulate) {
  for (std::int64_t m = 0; m < num_rows; ++m, sums += kPanelRows, out += out_stride) {
    for (int c = 0; c < num_cols; c += 16) {
      const int count = num_cols - c < 16 ? static_cast<int>(num_cols - c) : 16;
      FloatLanes value = load(sums + c);
      if (bias != nullptr) value = add(value, load_first(bias + c, count));
      if (accumulate) value = add(load_first(out + c, count), value);
      store_first(out + c, value, count);
    }
  }
}
#endif
