/// \file The oracle of rms_norm: sums in double.
#pragma once

#include <kvpage/kernels/rms_norm/args.hpp>

#include <cmath>

KVPAGE_BEGIN_NAMESPACE
namespace reference {

/// Obvious loops in double; the contract is RmsNormArgs, without quantized_out.
template <Element X = float, Element Out = X>
Status rms_norm(const BasicRmsNormArgs<X, Out>& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  if (args.num_rows > 0 && args.quantized_out.groups != nullptr) {
    return {StatusCode::kInvalidArgument, "reference::rms_norm: rows stay floats here, leave quantized_out empty"};
  }
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    const Stored<X>* x = args.x + r * args.x_stride;
    double sum = 0;
    for (std::int64_t i = 0; i < args.dim; ++i) sum += element_value<X>(x[i]) * element_value<X>(x[i]);
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(args.dim) + static_cast<double>(args.eps));
    for (std::int64_t i = 0; i < args.dim; ++i) {
      const double before = args.residual != nullptr ? element_value<Out>(args.residual[r * args.residual_stride + i]) : 0.0;
      const double value = element_value<X>(x[i]) * scale * static_cast<double>(args.weight[i]);
      args.out[r * args.out_stride + i] = ElementCodec<Out>::encode(static_cast<float>(before + value));
    }
  }
  return {};
}

}  // namespace reference
KVPAGE_END_NAMESPACE
