/// The only unit that compiles the packed kernels: they are the heaviest headers of the library.
#include "engine/backend/cpu_backend.hpp"

#include <kvpage/kernels/gemm/cpu.hpp>
#include <kvpage/kernels/gemm/packed_cpu.hpp>
#include <kvpage/kernels/gemm/shipped_panels.hpp>
#include <kvpage/kernels/quantize_rows/cpu.hpp>

#include <stdexcept>

namespace kvpage::engine {

CpuBackend::Weight CpuBackend::load(const WeightView& view) {
  Weight weight;
  weight.rows = view.rows;
  weight.cols = view.cols;
  weight.plain = view;
  const auto kernels = find_panel_kernels(*view.format);
  if (!kernels) {
    weight.slow_reason = kernels.error().message();
    return weight;
  }
  const auto bytes = packed_bytes(**kernels, view.rows, view.cols);
  if (!bytes) {
    weight.slow_reason =
        "rows of " + std::to_string(view.cols) + " weights are not whole steps of " + std::to_string((*kernels)->step_cols);
    return weight;
  }
  weight.memory = MappedMemory(*bytes);
  auto packed = pack_weight(*cpu_, **kernels, view, weight.memory.span());
  // Scales were checked when the file was opened, so this is a fault of ours, not of the file.
  if (!packed) throw std::runtime_error(std::string(packed.error().message()) + " (row " + std::to_string(packed.error().value()) + ")");
  weight.packed = *packed;
  weight.plain = {};
  return weight;
}

std::string CpuBackend::kernel_name(const Weight& weight) const {
  if (weight.packed.data == nullptr) return "decoded floats";
  return std::string(weight.packed.kernels->format) + " panels, " + isa_name(cpu_->isa());
}

Status CpuBackend::prepare(const float* x, std::int64_t stride, std::int64_t num_rows, std::int64_t cols, Input& input) {
  const std::int64_t bytes = QuantizedRows::bytes_for(num_rows, cols);
  if (static_cast<std::int64_t>(input.memory.span().size()) < bytes) input.memory = MappedMemory(bytes);
  input.rows = {QuantizedRows::place(input.memory.span(), num_rows, cols), x, stride, num_rows};
  return quantize_rows(*cpu_, {.x = x, .x_stride = stride, .num_rows = num_rows, .out = input.rows.quantized});
}

Status CpuBackend::matmul(const Weight& weight, const Input& input, const float* bias, float* out, std::int64_t out_stride,
                          bool accumulate) {
  if (weight.packed.data != nullptr) {
    return gemm(*cpu_, PackedGemmArgs{.weight = weight.packed, .input = input.rows, .bias = bias, .out = out, .out_stride = out_stride,
                                      .accumulate = accumulate});
  }
  return gemm(*cpu_, GemmArgs{.weight = weight.plain, .x = input.rows.x, .x_stride = input.rows.x_stride,
                              .num_rows = input.rows.num_rows, .bias = bias, .out = out, .out_stride = out_stride,
                              .accumulate = accumulate});
}

}  // namespace kvpage::engine
