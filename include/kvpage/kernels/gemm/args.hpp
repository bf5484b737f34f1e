/// \file GemmArgs: rows of activations times a matrix of weights in any block format.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/base/types.hpp>
#include <kvpage/precision/element.hpp>
#include <kvpage/quant/weight_view.hpp>

KVPAGE_BEGIN_NAMESPACE

/// out[m, n] = [out[m, n] +] sum over k of x[m, k] * weight[n, k] [+ bias[n]]
///
/// Requires: `out` does not overlap `x`.
/// Ensures: a row's bits depend on that row (and, with `accumulate`, on what `out` held) and the weights alone, never on
/// num_rows, its place or the number of workers.
template <Element X, Element Out = X>
struct BasicGemmArgs {
  WeightView weight{};        // [N, K]
  const Stored<X>* x = nullptr;  // [num_rows, K]
  std::int64_t x_stride = 0;     ///< elements from one row to the next
  std::int64_t num_rows = 0;
  const float* bias = nullptr;  // [N] or null
  Stored<Out>* out = nullptr;   // [num_rows, N]
  std::int64_t out_stride = 0;
  bool accumulate = false;  ///< add to what `out` holds (residual connections)
};
using GemmArgs = BasicGemmArgs<float>;

/// The error of a launch that cannot run, or ok.
template <Element X, Element Out>
Status validate(const BasicGemmArgs<X, Out>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.num_rows < 0) return invalid("gemm: num_rows is negative", args.num_rows, 0);
  if (args.num_rows == 0) return {};
  if (args.weight.format == nullptr || args.weight.data == nullptr) return invalid("gemm: the weight view is empty", 0, 1);
  if (args.weight.rows <= 0 || args.weight.cols <= 0) return invalid("gemm: N and K must be positive", args.weight.rows, 1);
  if (args.x == nullptr || args.out == nullptr) return invalid("gemm: x or out is null", 0, 1);
  if (args.x_stride < args.weight.cols) return invalid("gemm: x_stride is smaller than K", args.x_stride, args.weight.cols);
  if (args.out_stride < args.weight.rows) return invalid("gemm: out_stride is smaller than N", args.out_stride, args.weight.rows);
  return {};
}

KVPAGE_END_NAMESPACE
