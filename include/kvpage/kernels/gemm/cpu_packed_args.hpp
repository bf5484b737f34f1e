/// \file PackedGemmArgs, GroupedGemmArgs and PackedGluArgs: rows of activations times packed matrices.
#pragma once

#include <kvpage/exec/gate_activation.hpp>
#include <kvpage/kernels/gemm/cpu_packed_weight.hpp>

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

/// Where the outputs of one matrix go; the meaning is that of PackedGemmArgs.
struct GemmOutput {
  const float* bias = nullptr;  // [N] or null
  float* out = nullptr;         // [num_rows, N]
  std::int64_t out_stride = 0;  ///< floats from one row to the next
  bool accumulate = false;
};

/// Several matrices that read the same rows, in one launch: of each what PackedGemmArgs gives, bit for bit. They may have different N and
/// formats; small ones share the workers.
struct GroupedGemmArgs {
  std::span<const PackedWeight> weights{};  // [num_matrices]
  GemmInput input{};
  std::span<const GemmOutput> outputs{};    // [num_matrices]
};

/// out = activation(x * gate^T) * (x * up^T), optionally quantised at once for the next matrix: what gemm, gemm, glu and
/// quantize_rows would give, bit for bit, without the rows in between.
struct PackedGluArgs {
  PackedWeight gate{};  // [N, K]
  PackedWeight up{};    // [N, K]
  GemmInput input{};
  GateActivation activation = GateActivation::kSilu;
  float* out = nullptr;         // [num_rows, N] or null
  std::int64_t out_stride = 0;  ///< floats from one row to the next
  QuantizedRows quantized_out{};  // [>= num_rows, N] or without memory
};

/// The error of multiplying these, or ok.
inline Status validate(const PackedWeight& weight, const GemmInput& input) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (input.num_rows < 0) return invalid("gemm: num_rows is negative", input.num_rows, 0);
  if (input.num_rows == 0) return {};
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

/// The error of a launch that cannot run, or ok.
inline Status validate(const GroupedGemmArgs& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.weights.size() != args.outputs.size()) {
    return invalid("gemm: every matrix has one output", std::ssize(args.outputs), std::ssize(args.weights));
  }
  for (std::size_t i = 0; i < args.weights.size(); ++i) {
    const PackedWeight& weight = args.weights[i];
    const GemmOutput& output = args.outputs[i];
    if (const Status status = validate(weight, args.input); !status.ok()) return status;
    if (args.input.num_rows == 0) continue;
    if (output.out == nullptr) return invalid("gemm: out is null", 0, 1);
    if (output.out_stride < weight.rows) return invalid("gemm: out_stride is smaller than N", output.out_stride, weight.rows);
  }
  return {};
}

/// The error of a launch that cannot run, or ok.
inline Status validate(const PackedGluArgs& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (const Status status = validate(args.gate, args.input); !status.ok() || args.input.num_rows == 0) return status;
  if (const Status status = validate(args.up, args.input); !status.ok()) return status;
  if (args.gate.rows != args.up.rows) return invalid("gemm_glu: gate and up have different N", args.up.rows, args.gate.rows);
  if (args.out == nullptr && args.quantized_out.groups == nullptr) return invalid("gemm_glu: no output is wanted", 0, 1);
  if (args.out != nullptr && args.out_stride < args.gate.rows) {
    return invalid("gemm_glu: out_stride is smaller than N", args.out_stride, args.gate.rows);
  }
  if (args.quantized_out.groups == nullptr) return {};
  if (args.quantized_out.cols != args.gate.rows) {
    return invalid("gemm_glu: quantized_out has another N", args.quantized_out.cols, args.gate.rows);
  }
  if (args.quantized_out.num_rows < args.input.num_rows) {
    return {StatusCode::kCapacity, "gemm_glu: quantized_out has too few rows", args.input.num_rows, args.quantized_out.num_rows};
  }
  return {};
}

KVPAGE_END_NAMESPACE
