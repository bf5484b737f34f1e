#include "engine/backend/cpu_backend.hpp"

#include "engine/backend/shipped_kernels.hpp"

#include <kvpage/kernels/gemm/cpu.hpp>
#include <kvpage/kernels/gemm/cpu_argmax.hpp>
#include <kvpage/kernels/gemm/cpu_packed.hpp>
#include <kvpage/kernels/quantize_rows/cpu.hpp>

namespace kvpage::engine {

Expected<CpuBackend::Weight, Status> CpuBackend::load(const WeightView& view, const FetchCallback& fetch) {
  return weights_.load(*cpu_, view, fetch);
}

std::string CpuBackend::kernel_name(const WeightView& view) {
  return packed_weight_bytes(view) > 0 ? std::string(view.format->name) + " panels" : "decoded floats";
}

std::string CpuBackend::slow_reason(const WeightView& view) {
  const auto kernels = shipped_kernels(*view.format);
  if (!kernels) return kernels.error().message();
  if (packed_weight_bytes(view) > 0) return {};
  return "rows of " + std::to_string(view.cols) + " weights are not whole steps of " + std::to_string((*kernels)->step_cols);
}

bool CpuBackend::multiplies_codes(const WeightView& view) {
  return packed_weight_bytes(view) > 0 && (*shipped_kernels(*view.format))->quantized_input;
}

QuantizedRows CpuBackend::place_rows(Input& input, std::int64_t num_rows, std::int64_t cols) {
  const std::int64_t bytes = QuantizedRows::bytes_for(num_rows, cols);
  if (static_cast<std::int64_t>(input.memory.span().size()) < bytes) input.memory = MappedMemory(bytes);
  return QuantizedRows::place(input.memory.span(), num_rows, cols);
}

Status CpuBackend::prepare(const float* x, std::int64_t stride, std::int64_t num_rows, std::int64_t cols, GroupScale group_scale,
                           Input& input) {
  input.rows = {place_rows(input, num_rows, cols), x, stride, num_rows};
  return quantize_rows(*cpu_, {.x = x, .x_stride = stride, .num_rows = num_rows, .out = input.rows.quantized,
                               .group_scale = group_scale});
}

Status CpuBackend::prepare_normed(RmsNormArgs args, Input& input) {
  args.quantized_out = place_rows(input, args.num_rows, args.dim);
  input.rows = {args.quantized_out, args.out, args.out_stride, args.num_rows};
  return kvpage::rms_norm(*cpu_, args);
}

Status CpuBackend::argmax(const Weight& weight, const Input& input, std::span<RowArgmax> best) {
  stats_.add_gemm(weight_bytes(weight));
  return gemm_argmax(*cpu_, {.weight = weight.packed, .input = input.rows, .best = best});
}

Status CpuBackend::matmul(const Weight& weight, const Input& input, const float* bias, float* out, std::int64_t out_stride,
                          bool accumulate) {
  stats_.add_gemm(weight_bytes(weight));
  if (weight.packed.data != nullptr) {
    return gemm(*cpu_, PackedGemmArgs{.weight = weight.packed, .input = input.rows, .bias = bias, .out = out, .out_stride = out_stride,
                                      .accumulate = accumulate});
  }
  return gemm(*cpu_, GemmArgs{.weight = weight.plain, .x = input.rows.x, .x_stride = input.rows.x_stride,
                              .num_rows = input.rows.num_rows, .bias = bias, .out = out, .out_stride = out_stride,
                              .accumulate = accumulate});
}

Status CpuBackend::gated_matmul(const Weight& gate, const Weight& up, const Input& input, const GatedRows& rows, const Weight& next,
                                Input& out) {
  const std::int64_t num_rows = input.rows.num_rows;
  const std::int64_t cols = gate.rows;
  const bool has_bias = rows.gate_bias != nullptr || rows.up_bias != nullptr;  // rare: no kernel fuses it
  if (!has_bias && gate.packed.data != nullptr && up.packed.data != nullptr) {
    PackedGluArgs args{.gate = gate.packed, .up = up.packed, .input = input.rows, .activation = rows.activation};
    if (multiplies_codes(next)) args.quantized_out = place_rows(out, num_rows, cols);
    else args.out = rows.gate, args.out_stride = rows.stride;
    out.rows = {args.quantized_out, args.out, args.out_stride, num_rows};
    stats_.add_gemm(weight_bytes(gate) + weight_bytes(up));
    return gemm_glu(*cpu_, args);
  }
  if (const Status status = matmul(gate, input, rows.gate_bias, rows.gate, rows.stride, false); !status.ok()) return status;
  if (const Status status = matmul(up, input, rows.up_bias, rows.up, rows.stride, false); !status.ok()) return status;
  const Status gated = glu(*cpu_, {.gate = rows.gate, .gate_stride = rows.stride, .up = rows.up, .up_stride = rows.stride,
                                   .out = rows.gate, .out_stride = rows.stride, .num_rows = num_rows, .dim = cols,
                                   .activation = rows.activation});
  return gated.ok() ? prepare(rows.gate, rows.stride, num_rows, cols, GroupScale::kLargest, out) : gated;
}

}  // namespace kvpage::engine
