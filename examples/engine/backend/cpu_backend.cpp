/// The only unit that compiles the packed kernels: they are the heaviest headers of the library.
#include "engine/backend/cpu_backend.hpp"

#include <kvpage/kernels/gemm/cpu.hpp>
#include <kvpage/kernels/gemm/packed_cpu.hpp>
#include <kvpage/kernels/gemm/shipped_panels.hpp>
#include <kvpage/kernels/quantize_rows/cpu.hpp>

#include <algorithm>

namespace kvpage::engine {

namespace {

/// Bytes of the file that are packed before they are given back: what a load holds twice.
constexpr std::int64_t kPackSliceBytes = std::int64_t{4} << 20;

/// Panels of `view`, whose rows are whole steps, in `memory`; a slice of rows at a time.
Expected<PackedWeight, Status> pack(Cpu& cpu, const PanelKernels& kernels, const WeightView& view, std::span<std::byte> memory,
                                    const ConsumedCallback& on_consumed) {
  const PackedWeight whole{memory.data(), view.rows, view.cols, &kernels};
  const std::int64_t slice_rows = std::max<std::int64_t>(1, kPackSliceBytes / (kPanelRows * view.row_bytes)) * kPanelRows;
  for (std::int64_t first = 0; first < view.rows; first += slice_rows) {
    const WeightView slice = view.slice_rows(first, std::min(slice_rows, view.rows - first));
    const auto offset = static_cast<std::size_t>(whole.panel(first / kPanelRows) - whole.data);
    if (const auto packed = pack_weight(cpu, kernels, slice, memory.subspan(offset)); !packed) return Unexpected{packed.error()};
    on_consumed({slice.data, static_cast<std::size_t>(slice.rows * slice.row_bytes)});
  }
  return whole;
}

}  // namespace

Expected<CpuBackend::Weight, Status> CpuBackend::load(const WeightView& view, const ConsumedCallback& on_consumed) {
  Weight weight;
  weight.rows = view.rows;
  weight.cols = view.cols;
  weight.plain = view;
  const auto kernels = find_panel_kernels(*view.format);
  if (!kernels) {
    weight.slow_reason = kernels.error().message();
    return weight;
  }
  const std::int64_t bytes = packed_weight_bytes(view);
  if (bytes == 0) {
    weight.slow_reason =
        "rows of " + std::to_string(view.cols) + " weights are not whole steps of " + std::to_string((*kernels)->step_cols);
    return weight;
  }
  const auto memory = weight_memory_.span().subspan(static_cast<std::size_t>(used_weight_bytes_));
  if (static_cast<std::int64_t>(memory.size()) < bytes) {
    return Unexpected{Status(StatusCode::kCapacity, "weights need more memory than was reserved", bytes, std::ssize(memory))};
  }
  const auto packed = pack(*cpu_, **kernels, view, memory.first(static_cast<std::size_t>(bytes)), on_consumed);
  if (!packed) return Unexpected{packed.error()};
  used_weight_bytes_ += bytes;
  weight.packed = *packed;
  weight.plain = {};
  return weight;
}

std::int64_t CpuBackend::packed_weight_bytes(const WeightView& view) {
  const auto kernels = find_panel_kernels(*view.format);
  return kernels ? packed_bytes(**kernels, view.rows, view.cols).value_or(0) : 0;
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
  stats_.add_gemm(weight_bytes(weight));
  if (weight.packed.data != nullptr) {
    return gemm(*cpu_, PackedGemmArgs{.weight = weight.packed, .input = input.rows, .bias = bias, .out = out, .out_stride = out_stride,
                                      .accumulate = accumulate});
  }
  return gemm(*cpu_, GemmArgs{.weight = weight.plain, .x = input.rows.x, .x_stride = input.rows.x_stride,
                              .num_rows = input.rows.num_rows, .bias = bias, .out = out, .out_stride = out_stride,
                              .accumulate = accumulate});
}

}  // namespace kvpage::engine
