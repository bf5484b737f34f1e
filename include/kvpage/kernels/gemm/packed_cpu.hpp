/// \file gemm over packed weights on the CPU.
#pragma once

#include <kvpage/kernels/gemm/epilogue.hpp>
#include <kvpage/kernels/gemm/packed_args.hpp>
#include <kvpage/kernels/gemm/tuning.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// Runs the tiles of a launch and hands every finished block of up to kMaxBlockRows x 32 sums to an epilogue.
struct PanelRunner {
  static constexpr std::int64_t kMaxBlockRows = 48;

  const PackedWeight& weight;
  TileInput input;
  PanelTile tile;
  std::int64_t tile_rows;
  std::int64_t pass_bytes;

  PanelRunner(const Cpu& cpu, const PackedWeight& w, const GemmInput& in, const GemmTuning& tuning) noexcept
      : weight(w), input{in.quantized.groups, in.quantized.row_groups, in.x, in.x_stride}, tile(cpu.select(w.kernels->tiles)),
        tile_rows(max_tile_rows(cpu.isa())), pass_bytes(tuning.pass_bytes) {}

  /// Sums of rows [first, first + count) with panel `p`: sums [count, 32].
  void run(std::int64_t p, std::int64_t first, std::int64_t count, float* sums) const noexcept {
    const PanelKernels& kernels = *weight.kernels;
    const std::byte* panel = weight.panel(p);
    const std::int64_t num_steps = weight.num_steps();
    // One tile reads the panel once: then there is nothing to keep.
    const std::int64_t steps_per_pass = count <= tile_rows ? num_steps : std::max<std::int64_t>(1, pass_bytes / kernels.step_bytes);
    for (std::int64_t step = 0; step < num_steps; step += steps_per_pass) {
      const std::int64_t steps = std::min(steps_per_pass, num_steps - step);
      // Tiles of nearly equal size: 7 rows are 4 + 3, not 6 + 1.
      const std::int64_t num_tiles = ceil_div(count, tile_rows);
      for (std::int64_t t = 0; t < num_tiles; ++t) {
        const std::int64_t begin = count * t / num_tiles;
        const std::int64_t end = count * (t + 1) / num_tiles;
        tile(panel + step * kernels.step_bytes, steps, input.from(first + begin, step * kernels.step_cols), static_cast<int>(end - begin),
             sums + begin * kPanelRows, step == 0);
      }
    }
  }
};

/// Calls `fn(panel, first_row, count)` for blocks that cover [0, num_panels) x [0, num_rows), in parallel. A worker stays with
/// its panels while the rows pass, so that its part of the weights stays in its cache.
template <class Fn>
void for_each_block(Cpu& cpu, std::int64_t num_panels, std::int64_t num_rows, const GemmTuning& tuning, Fn&& fn) {
  const std::int64_t block_rows = std::clamp<std::int64_t>(tuning.block_rows, 1, PanelRunner::kMaxBlockRows);
  const std::int64_t num_blocks = ceil_div(num_rows, block_rows);
  const std::int64_t chunk = std::max<std::int64_t>(1, num_blocks == 1 ? tuning.few_rows_panels : tuning.chunk_panels);
  const std::int64_t num_chunks = ceil_div(num_panels, chunk);
  cpu.parallel_for(num_chunks * num_blocks, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first_row = i % num_blocks * block_rows;
      const std::int64_t first_panel = i / num_blocks * chunk;
      for (std::int64_t p = first_panel; p < std::min(num_panels, first_panel + chunk); ++p) {
        fn(p, first_row, std::min(block_rows, num_rows - first_row));
      }
    }
  });
}
}  // namespace detail

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
