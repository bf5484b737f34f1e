/// \file The oracle of gemm: every weight row decoded, products summed in double.
#pragma once

#include <kvpage/kernels/gemm/args.hpp>

#include <algorithm>
#include <vector>

KVPAGE_BEGIN_NAMESPACE
namespace reference {
namespace detail {
/// Weight rows that are summed side by side: independent chains of additions keep the processor busy. A sum's own order
/// (k ascending) does not change.
inline constexpr std::int64_t kSideBySide = 4;

/// sums[r] = sum over k ascending of x[k] * weights[r, k]
template <Element X>
void dot_rows(const Stored<X>* x, const float* weights, std::int64_t cols, double* sums) noexcept {
  double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
  for (std::int64_t k = 0; k < cols; ++k) {
    const double value = element_value<X>(x[k]);
    s0 += value * static_cast<double>(weights[k]);
    s1 += value * static_cast<double>(weights[cols + k]);
    s2 += value * static_cast<double>(weights[2 * cols + k]);
    s3 += value * static_cast<double>(weights[3 * cols + k]);
  }
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}
}  // namespace detail

/// Obvious loops in double; the contract is GemmArgs.
template <Element X = float, Element Out = X>
Status gemm(const BasicGemmArgs<X, Out>& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  const std::int64_t cols = args.weight.cols;
  std::vector<float> weights(static_cast<std::size_t>(detail::kSideBySide * cols));  // [kSideBySide, cols]
  for (std::int64_t first = 0; first < args.weight.rows; first += detail::kSideBySide) {
    const std::int64_t count = std::min(detail::kSideBySide, args.weight.rows - first);
    for (std::int64_t r = 0; r < count; ++r) args.weight.decode_row(first + r, weights.data() + r * cols);
    for (std::int64_t m = 0; m < args.num_rows; ++m) {
      double sums[detail::kSideBySide];
      detail::dot_rows<X>(args.x + m * args.x_stride, weights.data(), cols, sums);
      for (std::int64_t r = 0; r < count; ++r) {
        Stored<Out>& out = args.out[m * args.out_stride + first + r];
        if (args.bias != nullptr) sums[r] += static_cast<double>(args.bias[first + r]);
        out = ElementCodec<Out>::encode(static_cast<float>(args.accumulate ? element_value<Out>(out) + sums[r] : sums[r]));
      }
    }
  }
  return {};
}

}  // namespace reference
KVPAGE_END_NAMESPACE
