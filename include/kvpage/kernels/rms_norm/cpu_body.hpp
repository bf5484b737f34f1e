/// \file Rows of rms_norm in the 16-lane vocabulary. No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/rms_norm/cpu.hpp>
#else

namespace detail {
/// Sum of squares: element i goes to lane i % 16, ascending, then the fixed tree.
template <Element X>
KVPAGE_LANES float sum_of_squares(const Stored<X>* x, std::int64_t dim) {
  FloatLanes sum = zero();
  std::int64_t i = 0;
  for (; i + 16 <= dim; i += 16) {
    const FloatLanes value = load_elements<ElementCodec<X>>(x + i);
    sum = fma(value, value, sum);
  }
  if (i < dim) {
    const FloatLanes tail = load_elements<ElementCodec<X>>(x + i, static_cast<int>(dim - i));
    sum = fma(tail, tail, sum);
  }
  return reduce_add(sum);
}

/// Elements [i, i + 16) of a row's result; only `count` of them are there.
template <Element X, Element Out>
KVPAGE_LANES FloatLanes rms_norm_lanes(const BasicRmsNormArgs<X, Out>& args, const Stored<X>* x, const Stored<Out>* residual,
                                       std::int64_t i, int count, FloatLanes scale) {
  const FloatLanes normed = mul(load_elements<ElementCodec<X>>(x + i, count), scale);
  const FloatLanes weight = load_first(args.weight + i, count);
  return residual != nullptr ? fma(normed, weight, load_elements<ElementCodec<Out>>(residual + i, count)) : mul(normed, weight);
}
}  // namespace detail

/// Rows [begin, end) of a validated launch.
template <Element X, Element Out>
void rms_norm_rows(const BasicRmsNormArgs<X, Out>& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const Stored<X>* x = args.x + r * args.x_stride;
    Stored<Out>* out = args.out != nullptr ? args.out + r * args.out_stride : nullptr;
    const Stored<Out>* residual = args.residual != nullptr ? args.residual + r * args.residual_stride : nullptr;
    QuantizedGroup* groups = args.quantized_out.groups;
    if (groups != nullptr) groups += r * args.quantized_out.row_groups;
    float block[32 * kSearchedGroups];
    const FloatLanes mean = div(broadcast(detail::sum_of_squares<X>(x, args.dim)), broadcast(static_cast<float>(args.dim)));
    const FloatLanes scale = div(broadcast(1.0f), sqrt(add(mean, broadcast(args.eps))));
    for (std::int64_t i = 0; i < args.dim; i += 32) {
      const int low_count = args.dim - i < 16 ? static_cast<int>(args.dim - i) : 16;
      const int high_count = args.dim - i >= 32 ? 16 : args.dim - i > 16 ? static_cast<int>(args.dim - i) - 16 : 0;
      const FloatLanes low = detail::rms_norm_lanes(args, x, residual, i, low_count, scale);
      const FloatLanes high = high_count > 0 ? detail::rms_norm_lanes(args, x, residual, i + 16, high_count, scale) : zero();
      if (out != nullptr) {
        store_elements<ElementCodec<Out>>(out + i, low, low_count);
        if (high_count > 0) store_elements<ElementCodec<Out>>(out + i + 16, high, high_count);
      }
      if (groups == nullptr) continue;
      if (args.group_scale == GroupScale::kLargest) {
        quantize_group(low, high, groups + i / 32);
        continue;
      }
      const std::int64_t at = i / 32 % kSearchedGroups;
      store(block + 32 * at, low);
      store(block + 32 * at + 16, high);
      if (at + 1 == kSearchedGroups || i + 32 >= args.dim) quantize_searched(block, static_cast<int>(at + 1), groups + i / 32 - at);
    }
  }
}
#endif
