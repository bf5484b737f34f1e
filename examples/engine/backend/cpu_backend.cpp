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

Status CpuBackend::prepare(const RowsArgs& args, Input& input) {
  input.rows = {place_rows(input, args.num_rows, args.cols), args.x, args.stride, args.num_rows};
  return quantize_rows(*cpu_, {.x = args.x, .x_stride = args.stride, .num_rows = args.num_rows, .out = input.rows.quantized,
                               .group_scale = args.group_scale});
}

Status CpuBackend::prepare_normed(RmsNormArgs args, Input& input) {
  args.quantized_out = place_rows(input, args.num_rows, args.dim);
  input.rows = {args.quantized_out, args.out, args.out_stride, args.num_rows};
  return kvpage::rms_norm(*cpu_, args);
}

Status CpuBackend::argmax(const Weight& weight, const Input& input, std::span<RowArgmax> best) {
  return gemm_argmax(*cpu_, {.weight = weight.packed, .input = input.rows, .best = best});
}

Status CpuBackend::matmul(const MatmulArgs<Weight, Input>& args) {
  const GemmInput& rows = args.input->rows;
  if (is_packed(*args.weight)) {
    return gemm(*cpu_, PackedGemmArgs{.weight = args.weight->packed, .input = rows, .bias = args.bias, .out = args.out,
                                      .out_stride = args.out_stride, .accumulate = args.accumulate});
  }
  return gemm(*cpu_, GemmArgs{.weight = args.weight->plain, .x = rows.x, .x_stride = rows.x_stride, .num_rows = rows.num_rows,
                              .bias = args.bias, .out = args.out, .out_stride = args.out_stride, .accumulate = args.accumulate});
}

Status CpuBackend::gated_matmul(const Gate& args, Input& out) {
  const GemmInput& rows = args.input->rows;
  PackedGluArgs glu{.gate = args.gate->packed, .up = args.up->packed, .input = rows, .activation = args.activation};
  if (multiplies_codes(*args.next)) glu.quantized_out = place_rows(out, rows.num_rows, args.gate->rows);
  else glu.out = args.gate_rows, glu.out_stride = args.stride;
  out.rows = {glu.quantized_out, glu.out, glu.out_stride, rows.num_rows};
  return gemm_glu(*cpu_, glu);
}

}  // namespace kvpage::engine
