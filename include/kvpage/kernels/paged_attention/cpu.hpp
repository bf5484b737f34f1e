/// \file paged_attention on the CPU backend: tiles of rows over the workers, integer or float scores straight from the pages.
#pragma once

#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/paged_attention/cpu_launch.hpp>

#include <string_view>

#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/scores_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/values_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/softmax_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/cpu_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {

/// Fewer tiles per worker than this, and tiles are cut into splits.
inline constexpr std::int64_t kTilesPerWorker = 4;
/// Splits in flight per worker: states of whole tiles, and many more of the small tiles of decode.
inline constexpr std::int64_t kTileStatesPerWorker = 8;
inline constexpr std::int64_t kUnitsPerWorker = 64;

template <KVStorage KV>
AttentionFunctions attention_functions(const Cpu& cpu) noexcept {
  using Key = KernelKey<typename KV::Key>;
  using Value = KernelValue<typename KV::Value>;
  using Attend = decltype(AttentionFunctions::attend);
  using Merge = decltype(AttentionFunctions::merge);
  using Finish = decltype(AttentionFunctions::finish);
  return {cpu.select(IsaTable<Attend>{KVPAGE_ISA_TABLE(template attend_splits<Key, Value>)}),
          cpu.select(IsaTable<Merge>{KVPAGE_ISA_TABLE(merge_attention_rows)}),
          cpu.select(IsaTable<Finish>{KVPAGE_ISA_TABLE(template finish_attention<Value>)})};
}

/// The caller's scratch: memory of every worker, and what units of work share.
struct AttentionMemory {
  std::byte* workers = nullptr;
  std::int64_t worker_bytes = 0;
  AttentionUnit* units = nullptr;   // [max_units]
  std::int64_t max_units = 0;
  std::byte* states = nullptr;      // [states_bytes]
  std::int64_t states_bytes = 0;
  AttentionRows fold;
  std::int64_t used_bytes = 0;

  AttentionMemory(const AttentionLaunch& launch, std::int64_t num_threads, std::byte* base) noexcept {
    AttentionCarver one(nullptr);
    AttentionScratch scratch;
    one.take(scratch, launch);
    worker_bytes = one.used_bytes();
    AttentionCarver all(base);
    all.take(workers, worker_bytes * num_threads);
    if (num_threads > 1) {
      max_units = kUnitsPerWorker * num_threads;
      states_bytes = state_bytes(launch, launch.rows) * kTileStatesPerWorker * num_threads;
      all.take(units, max_units);
      all.take(states, states_bytes);
      all.take(fold, launch.rows, launch.padded_dim);
    }
    used_bytes = all.used_bytes();
  }
  static std::int64_t state_bytes(const AttentionLaunch& launch, std::int64_t rows) noexcept {
    AttentionCarver carver(nullptr);
    AttentionRows state;
    carver.take(state, rows, launch.padded_dim);
    return carver.used_bytes();
  }
  AttentionScratch worker(const AttentionLaunch& launch, int index) const noexcept {
    AttentionScratch scratch;
    AttentionCarver carver(workers + index * worker_bytes);
    carver.take(scratch, launch);
    return scratch;
  }
};

/// Enough tiles: each is one worker's job from its first to its last split.
template <KVStorage KV>
void attend_whole_tiles(Cpu& cpu, const PagedAttentionArgs<KV>& args, const AttentionLaunch& launch, const AttentionMemory& memory,
                        std::int64_t num_tiles) noexcept {
  const AttentionFunctions functions = attention_functions<KV>(cpu);
  cpu.parallel_for(num_tiles, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    const AttentionScratch scratch = memory.worker(launch, worker);
    AttentionTiles<KV> tiles(args, launch);
    for (std::int64_t i = begin; i < end; ++i) {
      const AttentionTile tile = tiles.at(i);
      const SplitRange splits = visible_splits(launch, tile);
      functions.attend(launch, tile, scratch, scratch.total, splits.begin, splits.end);
      functions.finish(launch, tile, scratch.total);
    }
  });
}

/// Folds finished units, in order, into the state of the tile they belong to, and finishes tiles that are complete.
inline void fold_units(const AttentionFunctions& functions, const AttentionLaunch& launch, const AttentionMemory& memory,
                       std::int64_t num_units) noexcept {
  const FloatEnvironment environment;
  for (std::int64_t i = 0; i < num_units; ++i) {
    const AttentionUnit& unit = memory.units[i];
    const std::int64_t rows = unit.tile.num_tokens * launch.group;
    if (unit.split == unit.splits.begin) std::fill_n(memory.fold.sum, rows, 0.0f);
    functions.merge(launch, memory.fold, unit.result, rows);
    if (unit.split + 1 >= unit.splits.end) functions.finish(launch, unit.tile, memory.fold);
  }
}

/// Few tiles: splits are units of their own, a bounded number at a time, and are folded in the same order.
template <KVStorage KV>
void attend_split_tiles(Cpu& cpu, const PagedAttentionArgs<KV>& args, const AttentionLaunch& launch, const AttentionMemory& memory,
                        std::int64_t num_tiles, std::int64_t most_rows) noexcept {
  const AttentionFunctions functions = attention_functions<KV>(cpu);
  const std::int64_t unit_bytes = AttentionMemory::state_bytes(launch, most_rows);
  const std::int64_t max_units = std::min(memory.max_units, memory.states_bytes / unit_bytes);
  AttentionTiles<KV> tiles(args, launch);
  std::int64_t num_units = 0;
  const auto run = [&] {
    cpu.parallel_for(num_units, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
      const AttentionScratch scratch = memory.worker(launch, worker);
      for (std::int64_t i = begin; i < end; ++i) {
        const AttentionUnit& unit = memory.units[i];
        functions.attend(launch, unit.tile, scratch, unit.result, unit.split, std::min(unit.split + 1, unit.splits.end));
      }
    });
    fold_units(functions, launch, memory, num_units);
    num_units = 0;
  };
  for (std::int64_t i = 0; i < num_tiles; ++i) {
    const AttentionTile tile = tiles.at(i);
    const SplitRange splits = visible_splits(launch, tile);
    for (std::int64_t split = splits.begin; split < std::max(splits.end, splits.begin + 1); ++split) {
      AttentionUnit& unit = memory.units[num_units];
      unit = {tile, split, splits, {}};
      AttentionCarver carver(memory.states + num_units * unit_bytes);
      carver.take(unit.result, most_rows, launch.padded_dim);
      if (++num_units == max_units) run();
    }
  }
  if (num_units > 0) run();
}

}  // namespace detail

/// Bytes of PagedAttentionArgs::scratch on a Cpu of `num_threads` threads. They do not depend on lengths or on the number of sequences.
template <KVStorage KV>
[[nodiscard]] std::int64_t paged_attention_scratch_bytes(int num_threads, const KVDims& dims, std::int64_t num_q_heads) noexcept {
  return detail::AttentionMemory(detail::make_launch<KV>(dims, num_q_heads), num_threads, nullptr).used_bytes;
}

/// The same for the threads of `cpu`.
template <KVStorage KV>
[[nodiscard]] std::int64_t paged_attention_scratch_bytes(const Cpu& cpu, const KVDims& dims, std::int64_t num_q_heads) noexcept {
  return paged_attention_scratch_bytes<KV>(cpu.num_threads(), dims, num_q_heads);
}

/// Why pages of KV are copied step by step instead of read in place; empty = they are read in place. Bits are the same.
template <KVStorage KV>
[[nodiscard]] constexpr std::string_view paged_attention_slow_reason(const KVDims& dims) noexcept {
  if (detail::reads_in_place<KV>(dims)) return {};
  if (dims.block_size % 16 != 0) return "pages are copied: block_size is no multiple of 16";
  if (dims.head_dim != detail::attention_padded_dim<KV>(dims.head_dim)) return "pages are copied: head_dim is no whole number of lanes";
  return "pages are copied: the kernel reads other codes or another layout";
}

/// See PagedAttentionArgs. Needs its scratch.
///
/// Softmax runs in steps of 32 absolute positions, partial results over 256, folded in ascending order: which worker does
/// what changes no bit. Keys and values are read as codes; 8- and 4-bit keys by integer dot products against queries of
/// 15 bits. Threads: one launch at a time per Cpu. Cost: no allocation.
template <KVStorage KV>
[[nodiscard]] Status paged_attention(Cpu& cpu, const PagedAttentionArgs<KV>& args) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  if (args.num_tokens == 0) return {};
  const detail::AttentionLaunch launch = detail::make_launch(args);
  const detail::AttentionMemory memory(launch, cpu.num_threads(), args.scratch.data());
  const auto given = static_cast<std::int64_t>(args.scratch.size());
  if (given < memory.used_bytes) {
    return {StatusCode::kCapacity, "paged_attention: scratch is smaller than paged_attention_scratch_bytes()", memory.used_bytes, given};
  }
  if (reinterpret_cast<std::uintptr_t>(args.scratch.data()) % kKVAlignment != 0) {
    return {StatusCode::kInvalidArgument, "paged_attention: scratch must be 64-byte aligned", 0, kKVAlignment};
  }
  std::int64_t most_tokens = 0;
  for (std::int64_t s = 0; s < args.view.tables.num_seqs; ++s) most_tokens = std::max(most_tokens, args.seqs[s].q_count);
  const std::int64_t num_tiles = detail::AttentionTiles<KV>(args, launch).count();
  if (cpu.num_threads() == 1 || num_tiles >= detail::kTilesPerWorker * cpu.num_threads()) {
    detail::attend_whole_tiles(cpu, args, launch, memory, num_tiles);
  } else {
    detail::attend_split_tiles(cpu, args, launch, memory, num_tiles, std::min(launch.rows, most_tokens * launch.group));
  }
  return {};
}

KVPAGE_END_NAMESPACE
