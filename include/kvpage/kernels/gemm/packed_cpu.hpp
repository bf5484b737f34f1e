/// \file gemm over packed weights on the CPU.
#pragma once

#include <kvpage/kernels/gemm/epilogue.hpp>
#include <kvpage/kernels/gemm/panel_runner.hpp>

KVPAGE_BEGIN_NAMESPACE

/// A finished block of outputs, on its worker's stack: sums [num_rows, 32], of which num_cols columns are real.
struct GemmBlock {
  const float* sums;
  std::int64_t first_row;
  std::int64_t num_rows;
  std::int64_t first_col;
  std::int64_t num_cols;
};

/// Multiplies and hands every finished block to `fn(const GemmBlock&)`, in parallel and in no fixed order: an epilogue of your
/// own. The blocks cover [0, num_rows) x [0, N) once; sums are those of PackedGemmArgs without bias.
/// Errors: a bad shape or missing input form; then fn is not called. Cost: no allocation.
template <class Fn>
Status gemm_blocks(Cpu& cpu, const PackedWeight& weight, const GemmInput& input, Fn&& fn, const GemmTuning& tuning = {}) {
  if (const Status status = validate(weight, input); !status.ok()) return status;
  const detail::PanelRunner runner(cpu, weight, input, tuning);
  const auto finish = [&](std::int64_t p, std::int64_t first_row, std::int64_t num_rows) {
    alignas(64) float sums[detail::PanelRunner::kMaxBlockRows * kPanelRows];
    runner.run(p, first_row, num_rows, sums);
    const std::int64_t first_col = p * kPanelRows;
    fn(GemmBlock{sums, first_row, num_rows, first_col, std::min<std::int64_t>(kPanelRows, weight.rows - first_col)});
  };
  detail::for_each_block(cpu, weight.num_panels(), input.num_rows, tuning, finish);
  return {};
}

/// The contract is PackedGemmArgs. Errors: a bad shape, pointer or missing input form; then nothing is written.
/// Cost: no allocation.
inline Status gemm(Cpu& cpu, const PackedGemmArgs& args, const GemmTuning& tuning = {}) {
  if (const Status status = validate(args); !status.ok()) return status;
  const auto store = cpu.select(IsaTable<detail::StoreBlock>{KVPAGE_ISA_TABLE(store_block)});
  const auto epilogue = [&](const GemmBlock& block) {
    store(block.sums, block.num_rows, block.num_cols, args.bias != nullptr ? args.bias + block.first_col : nullptr,
          args.out + block.first_row * args.out_stride + block.first_col, args.out_stride, args.accumulate);
  };
  return gemm_blocks(cpu, args.weight, args.input, epilogue, tuning);
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
