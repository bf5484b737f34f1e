/// \file gemm over packed weights on the CPU.
#pragma once

#include <kvpage/kernels/gemm/cpu_epilogue.hpp>
#include <kvpage/kernels/gemm/cpu_panel_runner.hpp>

KVPAGE_BEGIN_NAMESPACE

/// A finished block of outputs of one matrix, on its worker's stack: sums [num_rows, 32], of which num_cols columns are real.
struct GemmBlock {
  const float* sums;
  std::int64_t first_row;
  std::int64_t num_rows;
  std::int64_t first_col;
  std::int64_t num_cols;
  std::size_t matrix;  ///< which one of the launch
};

/// Multiplies rows with several matrices and hands every finished block to `fn(const GemmBlock&)`, in parallel and in no fixed order: an
/// epilogue of your own. Of each matrix the blocks cover [0, num_rows) x [0, N) once, all with the same cuts of the rows; sums are those of
/// PackedGemmArgs without bias.
/// Errors: a bad shape or missing input form; then fn is not called. Cost: no allocation.
template <class Fn>
Status gemm_blocks(Cpu& cpu, std::span<const PackedWeight> weights, const GemmInput& input, Fn&& fn, const GemmTuning& tuning = {}) {
  std::int64_t num_panels = 0;
  for (const PackedWeight& weight : weights) {
    if (const Status status = validate(weight, input); !status.ok() || input.num_rows == 0) return status;
    num_panels += weight.num_panels();
  }
  const auto finish = [&](std::int64_t p, std::int64_t first_row, std::int64_t num_rows) {
    std::size_t matrix = 0;
    for (; p >= weights[matrix].num_panels(); ++matrix) p -= weights[matrix].num_panels();
    const PackedWeight& weight = weights[matrix];
    alignas(64) float sums[detail::PanelRunner::kMaxBlockRows * kPanelRows];
    detail::PanelRunner(cpu, weight, input, tuning).run(p, first_row, num_rows, sums);
    const std::int64_t first_col = p * kPanelRows;
    fn(GemmBlock{sums, first_row, num_rows, first_col, std::min<std::int64_t>(kPanelRows, weight.rows - first_col), matrix});
  };
  detail::for_each_block(cpu, num_panels, input.num_rows, tuning, finish);
  return {};
}

/// The same with one matrix.
template <class Fn>
Status gemm_blocks(Cpu& cpu, const PackedWeight& weight, const GemmInput& input, Fn&& fn, const GemmTuning& tuning = {}) {
  return gemm_blocks(cpu, std::span(&weight, 1), input, fn, tuning);
}

namespace detail {
/// Writes finished blocks where the outputs of a launch are wanted.
class StoreEpilogue {
 public:
  StoreEpilogue(const Cpu& cpu, std::span<const GemmOutput> outputs) noexcept
      : store_(cpu.select(IsaTable<StoreBlock>{KVPAGE_ISA_TABLE(store_block)})), outputs_(outputs) {}

  void operator()(const GemmBlock& block) const noexcept {
    const GemmOutput& to = outputs_[block.matrix];
    store_(block.sums, block.num_rows, block.num_cols, to.bias != nullptr ? to.bias + block.first_col : nullptr,
           to.out + block.first_row * to.out_stride + block.first_col, to.out_stride, to.accumulate);
  }

 private:
  StoreBlock store_;
  std::span<const GemmOutput> outputs_;
};
}  // namespace detail

/// The contract is GroupedGemmArgs. Errors: a bad shape, pointer or missing input form; then nothing is written.
/// Cost: no allocation.
inline Status gemm(Cpu& cpu, const GroupedGemmArgs& args, const GemmTuning& tuning = {}) {
  if (const Status status = validate(args); !status.ok()) return status;
  return gemm_blocks(cpu, args.weights, args.input, detail::StoreEpilogue(cpu, args.outputs), tuning);
}

/// The contract is PackedGemmArgs. Errors: a bad shape, pointer or missing input form; then nothing is written.
/// Cost: no allocation.
inline Status gemm(Cpu& cpu, const PackedGemmArgs& args, const GemmTuning& tuning = {}) {
  const GemmOutput output{args.bias, args.out, args.out_stride, args.accumulate};
  return gemm(cpu, GroupedGemmArgs{std::span(&args.weight, 1), args.input, std::span(&output, 1)}, tuning);
}

/// The contract is PackedGluArgs. Errors: a bad shape, pointer or missing input form; then nothing is written.
/// Cost: no allocation.
inline Status gemm_glu(Cpu& cpu, const PackedGluArgs& args, const GemmTuning& tuning = {}) {
  if (const Status status = validate(args); !status.ok()) return status;
  const auto finish_glu = cpu.select(IsaTable<detail::GluBlock>{KVPAGE_ISA_TABLE(glu_block)});
  const detail::PanelRunner gate_runner(cpu, args.gate, args.input, tuning);
  const detail::PanelRunner up_runner(cpu, args.up, args.input, tuning);
  const auto finish = [&](std::int64_t p, std::int64_t first_row, std::int64_t num_rows) {
    alignas(64) float gate[detail::PanelRunner::kMaxBlockRows * kPanelRows];
    alignas(64) float up[detail::PanelRunner::kMaxBlockRows * kPanelRows];
    gate_runner.run(p, first_row, num_rows, gate);
    up_runner.run(p, first_row, num_rows, up);
    finish_glu(args, gate, up, p, first_row, num_rows);
  };
  detail::for_each_block(cpu, args.gate.num_panels(), args.input.num_rows, tuning, finish);
  return {};
}

KVPAGE_END_NAMESPACE
