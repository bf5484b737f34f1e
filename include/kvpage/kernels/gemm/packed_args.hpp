/// \file PackedGemmArgs: rows of activations times a packed matrix.
#pragma once

#include <kvpage/kernels/gemm/packed_weight.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Activation rows in the forms that packed kernels take. Quantise a tensor once (quantize_rows) for all matrices that it meets.
struct GemmInput {
  QuantizedRows quantized{};  // [>= num_rows, K], for weights of codes
  const float* x = nullptr;   // [num_rows, K], for weights of plain floats
  std::int64_t x_stride = 0;  ///< floats from one row to the next
  std::int64_t num_rows = 0;
};

/// out[m, n] = [out[m, n] +] sum over k of x[m, k] * weight[n, k] [+ bias[n]]
///
/// Ensures: a row's bits depend on that row (and, with `accumulate`, on what `out` held), the weights and the instruction
/// set's float law alone: never on num_rows, its place, tiles or workers; all instruction sets agree bit for bit.
/// The law per output, groups of 32 (or 16) ascending: t = exact integer dot; s = fma(t, scale * d, s); with minima
/// s = fma(minimum, d_sum, s). Plain floats: s = fma(w, x, s). Then bias, then what `out` held, are added.
struct PackedGemmArgs {
  PackedWeight weight{};  // [N, K]
  GemmInput input{};
  const float* bias = nullptr;  // [N] or null
  float* out = nullptr;         // [num_rows, N]
  std::int64_t out_stride = 0;  ///< floats from one row to the next
  bool accumulate = false;      ///< add to what `out` holds (residual connections)
};

namespace detail {
inline Status validate_input(const GemmInput& input, const PackedWeight& weight) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (weight.data == nullptr || weight.kernels == nullptr) return invalid("gemm: the packed weight is empty", 0, 1);
  if (weight.rows <= 0 || weight.cols <= 0) return invalid("gemm: N and K must be positive", weight.rows, 1);
  if (!weight.kernels->quantized_input) {
    if (input.x == nullptr) return invalid("gemm: weights of plain floats need float rows in input.x", 0, 1);
    if (input.x_stride < weight.cols) return invalid("gemm: x_stride is smaller than K", input.x_stride, weight.cols);
    return {};
  }
  if (input.quantized.groups == nullptr) return invalid("gemm: weights of codes need quantised rows in input.quantized", 0, 1);
  if (input.quantized.cols != weight.cols) return invalid("gemm: the quantised rows have another K", input.quantized.cols, weight.cols);
  if (input.num_rows > input.quantized.num_rows) {
    return invalid("gemm: fewer rows are quantised than num_rows", input.quantized.num_rows, input.num_rows);
  }
  return {};
}
}  // namespace detail

/// The error of a launch that cannot run, or ok.
inline Status validate(const PackedGemmArgs& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.input.num_rows < 0) return invalid("gemm: num_rows is negative", args.input.num_rows, 0);
  if (args.input.num_rows == 0) return {};
  if (const Status status = detail::validate_input(args.input, args.weight); !status.ok()) return status;
  if (args.out == nullptr) return invalid("gemm: out is null", 0, 1);
  if (args.out_stride < args.weight.rows) return invalid("gemm: out_stride is smaller than N", args.out_stride, args.weight.rows);
  return {};
}

KVPAGE_END_NAMESPACE
