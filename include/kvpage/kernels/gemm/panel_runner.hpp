/// \file PanelRunner: runs the tiles of a packed launch; for_each_block: cuts it into blocks for the workers.
#pragma once

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

KVPAGE_END_NAMESPACE
