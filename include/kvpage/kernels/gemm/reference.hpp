/// \file The oracle of gemm: every weight row decoded, products summed in double.
#pragma once

#include <kvpage/kernels/gemm/args.hpp>

#include <vector>

KVPAGE_BEGIN_NAMESPACE
namespace reference {

/// Obvious loops in double; the contract is GemmArgs.
inline Status gemm(const GemmArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  std::vector<float> weights(static_cast<std::size_t>(args.weight.cols));
  for (std::int64_t n = 0; n < args.weight.rows; ++n) {
    args.weight.decode_row(n, weights.data());
    for (std::int64_t m = 0; m < args.num_rows; ++m) {
      const float* x = args.x + m * args.x_stride;
      double sum = args.bias != nullptr ? static_cast<double>(args.bias[n]) : 0.0;
      for (std::int64_t k = 0; k < args.weight.cols; ++k) {
        sum += static_cast<double>(x[k]) * static_cast<double>(weights[static_cast<std::size_t>(k)]);
      }
      float& out = args.out[m * args.out_stride + n];
      out = static_cast<float>(args.accumulate ? static_cast<double>(out) + sum : sum);
    }
  }
  return {};
}

}  // namespace reference
KVPAGE_END_NAMESPACE
