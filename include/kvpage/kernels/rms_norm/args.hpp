/// \file RmsNormArgs: root-mean-square normalisation of rows, with an optional residual, quantised at once if a matrix comes next.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/base/types.hpp>
#include <kvpage/exec/quantized_rows.hpp>
#include <kvpage/precision/element.hpp>

#include <cmath>

KVPAGE_BEGIN_NAMESPACE

/// out = [residual +] x / sqrt(mean(x^2) + eps) * weight, row by row.
///
/// With `quantized_out` each row is also quantised, to the bits of quantize_rows on an `out` of floats with the same `group_scale`;
/// `out` may then be null.
/// Serves norms before a block, norms after it (with `residual`), and the per-head norm of queries and keys (a row is a head).
/// Requires: `out` is `x`, is `residual`, or overlaps neither; elements that overlap have one type.
/// Ensures: a row's bits depend on that row, its residual and the weight alone.
/// Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
template <Element X, Element Out = X>
struct BasicRmsNormArgs {
  const Stored<X>* x = nullptr;     // [num_rows, dim]
  std::int64_t x_stride = 0;        ///< elements from one row to the next
  const float* weight = nullptr;    // [dim]
  const Stored<Out>* residual = nullptr;  // [num_rows, dim] or null
  std::int64_t residual_stride = 0;
  Stored<Out>* out = nullptr;  // [num_rows, dim] or null
  std::int64_t out_stride = 0;
  std::int64_t num_rows = 0;
  std::int64_t dim = 0;
  float eps = 1e-6f;  ///< > 0, finite: a row of zeros has a norm
  QuantizedRows quantized_out{};  // [>= num_rows, dim] or without memory
  GroupScale group_scale = GroupScale::kLargest;
};
using RmsNormArgs = BasicRmsNormArgs<float>;

/// The error of a launch that cannot run, or ok.
template <Element X, Element Out>
Status validate(const BasicRmsNormArgs<X, Out>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.num_rows < 0) return invalid("rms_norm: num_rows is negative", args.num_rows, 0);
  if (args.num_rows == 0) return {};
  if (args.dim <= 0) return invalid("rms_norm: dim must be positive", args.dim, 1);
  const bool quantizes = args.quantized_out.groups != nullptr;
  if (args.x == nullptr || args.weight == nullptr) return invalid("rms_norm: x or weight is null", 0, 1);
  if (args.out == nullptr && !quantizes) return invalid("rms_norm: out is null", 0, 1);
  if (args.x_stride < args.dim) return invalid("rms_norm: x_stride is smaller than dim", args.x_stride, args.dim);
  if (args.out != nullptr && args.out_stride < args.dim) {
    return invalid("rms_norm: out_stride is smaller than dim", args.out_stride, args.dim);
  }
  if (args.residual != nullptr && args.residual_stride < args.dim) {
    return invalid("rms_norm: residual_stride is smaller than dim", args.residual_stride, args.dim);
  }
  if (quantizes && args.quantized_out.cols != args.dim) {
    return invalid("rms_norm: quantized_out has another dim", args.quantized_out.cols, args.dim);
  }
  if (quantizes && args.quantized_out.num_rows < args.num_rows) {
    return {StatusCode::kCapacity, "rms_norm: quantized_out has too few rows", args.num_rows, args.quantized_out.num_rows};
  }
  if (!(args.eps > 0.0f) || std::isinf(args.eps)) return invalid("rms_norm: eps must be finite and > 0", 0, 0);
  return {};
}

KVPAGE_END_NAMESPACE
