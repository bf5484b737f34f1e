/// \file gemm_argmax: the largest output of every row of a packed launch, whose outputs are never stored.
#pragma once

#include <kvpage/kernels/gemm/cpu_packed.hpp>
#include <kvpage/kernels/gemm/cpu_row_argmax.hpp>

KVPAGE_BEGIN_NAMESPACE

/// best[m] = the maximum of row m of what PackedGemmArgs gives without bias, from the same bits.
struct GemmArgmaxArgs {
  PackedWeight weight{};         // [N, K], N < 2^32
  GemmInput input{};
  std::span<RowArgmax> best{};  // [>= num_rows]
};

/// The error of a launch that cannot run, or ok.
inline Status validate(const GemmArgmaxArgs& args) noexcept {
  if (const Status status = validate(args.weight, args.input); !status.ok()) return status;
  constexpr std::int64_t kLimit = std::int64_t{1} << 32;
  if (args.input.num_rows > 0 && args.weight.rows >= kLimit) {
    return {StatusCode::kInvalidArgument, "gemm_argmax: N is too large", args.weight.rows, kLimit - 1};
  }
  if (std::ssize(args.best) >= args.input.num_rows) return {};
  return {StatusCode::kCapacity, "gemm_argmax: best needs an entry per row", args.input.num_rows, std::ssize(args.best)};
}

/// The contract is GemmArgmaxArgs. Errors: a bad shape or missing input form, kCapacity; then nothing is written.
/// Cost: no allocation; nothing of [num_rows, N] goes to memory.
inline Status gemm_argmax(Cpu& cpu, const GemmArgmaxArgs& args, const GemmTuning& tuning = {}) {
  if (const Status status = validate(args); !status.ok()) return status;
  std::fill_n(args.best.begin(), args.input.num_rows, RowArgmax{});
  const auto panel_maximum = cpu.select(IsaTable<detail::PanelMaximum>{KVPAGE_ISA_TABLE(panel_maximum)});
  const auto epilogue = [&](const GemmBlock& block) {
    for (std::int64_t m = 0; m < block.num_rows; ++m) {
      float value = 0;
      const int col = panel_maximum(block.sums + m * kPanelRows, block.num_cols, &value);
      args.best[static_cast<std::size_t>(block.first_row + m)].raise({value, block.first_col + col});
    }
  };
  return gemm_blocks(cpu, args.weight, args.input, epilogue, tuning);
}

KVPAGE_END_NAMESPACE
