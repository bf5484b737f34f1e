/// \file What happens to finished sums. No include guard: cpu_epilogue.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/gemm/cpu_epilogue.hpp>
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

/// The contract is GluBlock.
inline void glu_block(const PackedGluArgs& args, const float* gate, const float* up, std::int64_t panel, std::int64_t first_row,
                      std::int64_t num_rows) {
  const std::int64_t col = panel * kPanelRows;
  const std::int64_t num_cols = args.gate.rows - col < kPanelRows ? args.gate.rows - col : kPanelRows;
  const int low_count = num_cols < 16 ? static_cast<int>(num_cols) : 16;
  for (std::int64_t m = 0; m < num_rows; ++m, gate += kPanelRows, up += kPanelRows) {
    FloatLanes value[2];
    KVPAGE_UNROLL
    for (int h = 0; h < 2; ++h) {
      const FloatLanes g = load(gate + 16 * h);
      value[h] = mul(args.activation == GateActivation::kSilu ? silu(g) : gelu(g), load(up + 16 * h));
    }
    if (args.out != nullptr) {
      float* out = args.out + (first_row + m) * args.out_stride + col;
      store_first(out, value[0], low_count);
      if (num_cols > 16) store_first(out + 16, value[1], static_cast<int>(num_cols) - 16);
    }
    if (args.quantized_out.groups != nullptr) {
      quantize_group(value[0], value[1], args.quantized_out.groups + (first_row + m) * args.quantized_out.row_groups + panel);
    }
  }
}

/// The contract is PanelMaximum.
inline int panel_maximum(const float* sums, std::int64_t num_cols, float* value) {
  const FloatLanes infinity = broadcast(__builtin_inff());
  const FloatLanes none = sub(zero(), infinity);
  const FloatLanes low = num_cols < 16 ? select(first_lanes(static_cast<int>(num_cols)), load(sums), none) : load(sums);
  const FloatLanes high = num_cols < 32 ? select(first_lanes(num_cols > 16 ? static_cast<int>(num_cols) - 16 : 0), load(sums + 16), none)
                                        : load(sums + 16);
  std::uint32_t found = ~(mask_bits(less(low, infinity)) | mask_bits(less(high, infinity)) << 16);  // NaN is less than nothing
  if (found == 0) {
    const FloatLanes maximum = broadcast(reduce_max(max(low, high)));
    found = mask_bits(equal(low, maximum)) | mask_bits(equal(high, maximum)) << 16;
  }
  const int col = __builtin_ctz(found);
  *value = sums[col];
  return col;
}
#endif
