/// \file PanelRunner: runs the tiles of a packed launch; for_each_block: cuts it into blocks for the workers.
#pragma once

#include <kvpage/kernels/gemm/cpu_packed_args.hpp>
#include <kvpage/kernels/gemm/cpu_tuning.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// Runs the tiles of a launch and hands every finished block of up to kMaxBlockRows x 32 sums to an epilogue.
struct PanelRunner {
  static constexpr std::int64_t kMaxBlockRows = 48;
  /// How far a single tile asks the memory ahead of what it reads: about what a core receives in one memory latency.
  static constexpr std::int64_t kAheadBytes = 4096;
  /// One tile alone asks ahead from these rows on; with fewer, `ahead` is what the tile reads itself, since the processor's own
  /// prefetchers do better alone.
  static constexpr std::int64_t kMinAloneRows = 5;

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
    const std::int64_t num_steps = weight.num_steps();
    const std::int64_t num_tiles = ceil_div(count, tile_rows);
    // One tile reads the panel once: then there is nothing to keep.
    const std::int64_t max_steps = num_tiles == 1 ? num_steps : std::max<std::int64_t>(1, pass_bytes / kernels.step_bytes);
    const std::int64_t num_passes = ceil_div(num_steps, max_steps);
    for (std::int64_t pass = 0; pass < num_passes; ++pass) {
      const std::int64_t step = num_steps * pass / num_passes;
      const std::int64_t steps = num_steps * (pass + 1) / num_passes - step;
      const std::byte* bytes = weight.panel(p) + step * kernels.step_bytes;
      // Tiles of nearly equal size: 7 rows are 4 + 3, not 6 + 1.
      for (std::int64_t t = 0; t < num_tiles; ++t) {
        const std::int64_t begin = count * t / num_tiles;
        const std::int64_t end = count * (t + 1) / num_tiles;
        TileInput rows = input.from(first + begin, step * kernels.step_cols);
        // Several tiles read this pass from the cache, and each asks for its share of the next one meanwhile.
        const std::int64_t pass_size = steps * kernels.step_bytes;
        rows.ahead = bytes;
        if (num_tiles > 1) rows.ahead += pass_size + pass_size * t / num_tiles;
        if (num_tiles == 1 && count >= kMinAloneRows) rows.ahead += kAheadBytes;
        rows.ahead_stride = kernels.step_bytes * QuantizedGroup::kSize / (kernels.step_cols * num_tiles);
        tile(bytes, steps, rows, static_cast<int>(end - begin), sums + begin * kPanelRows, pass == 0);
      }
    }
  }
};

/// Calls `fn(panel, first_row, count)` for blocks that cover [0, num_panels) x [0, num_rows), in parallel. Within its part a
/// worker takes a few panels and lets the rows pass, so that the panels stay in its cache. Pieces are of nearly equal size,
/// and small enough that workers end together.
template <class Fn>
void for_each_block(Cpu& cpu, std::int64_t num_panels, std::int64_t num_rows, const GemmTuning& tuning, Fn&& fn) {
  constexpr std::int64_t kPiecesPerWorker = 6;
  const std::int64_t num_workers = cpu.num_threads();
  const std::int64_t block_rows = std::clamp<std::int64_t>(tuning.block_rows, 1, PanelRunner::kMaxBlockRows);
  const std::int64_t num_blocks = ceil_div(num_rows, block_rows);
  const std::int64_t max_chunk = std::max<std::int64_t>(1, num_blocks == 1 ? tuning.few_rows_panels : tuning.chunk_panels);
  const std::int64_t chunk = std::clamp<std::int64_t>(num_panels * num_blocks / (kPiecesPerWorker * num_workers), 1, max_chunk);
  const std::int64_t num_chunks = ceil_div(num_panels, chunk);
  // A worker's part is some panels with all rows, or, where there are many rows, some rows with all panels: its caches then
  // hold these rows from the operation before.
  const std::int64_t num_parts = num_blocks >= 2 * num_workers ? num_workers : 1;
  const std::int64_t max_part_blocks = ceil_div(num_blocks, num_parts);
  const auto run_block = [&](std::int64_t part, std::int64_t c, std::int64_t block_of_part) {
    const std::int64_t block = num_blocks * part / num_parts + block_of_part;
    if (block >= num_blocks * (part + 1) / num_parts) return;  // parts differ by one block at most
    const std::int64_t first_row = block * block_rows;
    for (std::int64_t p = num_panels * c / num_chunks; p < num_panels * (c + 1) / num_chunks; ++p) {
      fn(p, first_row, std::min(block_rows, num_rows - first_row));
    }
  };
  cpu.parallel_for(num_parts * num_chunks * max_part_blocks, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t part_chunk = i / max_part_blocks;
      run_block(part_chunk / num_chunks, part_chunk % num_chunks, i % max_part_blocks);
    }
  });
}
}  // namespace detail

KVPAGE_END_NAMESPACE
