/// \file paged_attention on the CPU backend: tiles of rows over the workers, integer or float scores straight from the pages.
#pragma once

#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/paged_attention/cpu_attention_plan.hpp>

#include <string_view>

#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/cpu_scores_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/cpu_values_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/cpu_sums_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/cpu_softmax_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/cpu_queries_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
#define KVPAGE_ISA_BODY <kvpage/kernels/paged_attention/cpu_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {

/// Fewer items per worker than this, and items are cut into splits.
inline constexpr std::int64_t kItemsPerWorker = 4;
/// Splits in flight per worker: states of whole tiles, and many more of the small tiles of decode.
inline constexpr std::int64_t kTileStatesPerWorker = 8;
inline constexpr std::int64_t kUnitsPerWorker = 64;
/// Units that a worker takes at once at most: those of the same rows prepare their queries once.
inline constexpr std::int64_t kUnitsPerChunk = 4;

template <KVStorage KV, Element Q, Element Out>
AttentionFunctions attention_functions(const Cpu& cpu) noexcept {
  using Key = KernelKey<typename KV::Key>;
  using Value = KernelValue<typename KV::Value>;
  using Prepare = decltype(AttentionFunctions::prepare);
  using Attend = decltype(AttentionFunctions::attend);
  using Merge = decltype(AttentionFunctions::merge);
  using Finish = decltype(AttentionFunctions::finish);
  return {cpu.select(IsaTable<Prepare>{KVPAGE_ISA_TABLE(template prepare_attention<Key, Q>)}),
          cpu.select(IsaTable<Attend>{KVPAGE_ISA_TABLE(template attend_splits<Key, Value>)}),
          cpu.select(IsaTable<Merge>{KVPAGE_ISA_TABLE(merge_attention_rows)}),
          cpu.select(IsaTable<Finish>{KVPAGE_ISA_TABLE(template finish_attention<Value, Out>)})};
}

/// The caller's scratch: memory of every worker, and what units of work share.
struct AttentionMemory {
  PlannedSeq* order = nullptr;  // [kPlannedSeqs], of launches without a plan
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
    all.take(order, kPlannedSeqs);
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

/// Enough items: each is one worker's job from its first to its last split.
template <KVStorage KV, Element Q, Element Out>
void attend_whole_items(Cpu& cpu, const AttentionItems<KV, Q, Out>& all_items, const AttentionLaunch& launch, const AttentionMemory& memory,
                        std::int64_t num_items) noexcept {
  const AttentionFunctions functions = attention_functions<KV, Q, Out>(cpu);
  cpu.parallel_for(num_items, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    const AttentionScratch scratch = memory.worker(launch, worker);
    AttentionItems<KV, Q, Out> items = all_items;
    for (std::int64_t i = begin; i < end; ++i) {
      const AttentionItem item = items.at(i);
      const MemberTiles members(items, item, 0, item.num_members);
      std::fill_n(scratch.total.sum, members.num_tokens * launch.group, 0.0f);
      if (item.shared_splits > 0) {
        functions.prepare(launch, members.tiles, members.count, scratch);
        functions.attend(launch, members.tiles, members.count, scratch, scratch.total, 0, item.shared_splits);
      }
      std::int64_t row = 0;
      for (std::int64_t m = 0; m < members.count; ++m) {
        const AttentionTile& tile = members.tiles[m];
        const AttentionRows total = scratch.total.from(row, launch.padded_dim);
        const SplitRange splits = own_splits(launch, tile, item.shared_splits);
        if (splits.begin < splits.end) functions.prepare(launch, &tile, 1, scratch);
        functions.attend(launch, &tile, 1, scratch, total, splits.begin, splits.end);
        functions.finish(launch, tile, total);
        row += tile.num_tokens * launch.group;
      }
    }
  });
}

/// Few items: splits are units of their own, a bounded number at a time, and are folded in the same order.
template <KVStorage KV, Element Q, Element Out>
class AttentionUnits {
 public:
  AttentionUnits(Cpu& cpu, const AttentionItems<KV, Q, Out>& items, const AttentionLaunch& launch, const AttentionMemory& memory,
                 std::int64_t most_rows) noexcept
      : cpu_(cpu), launch_(launch), memory_(memory), functions_(attention_functions<KV, Q, Out>(cpu)), items_(items),
        most_rows_(most_rows), unit_bytes_(AttentionMemory::state_bytes(launch, most_rows)),
        max_units_(std::min(memory.max_units, memory.states_bytes / unit_bytes_)) {}

  void attend(std::int64_t num_items) noexcept {
    for (std::int64_t i = 0; i < num_items; ++i) add_item(items_.at(i));
    if (num_units_ > 0) run();
  }

 private:
  void add_item(const AttentionItem& item) noexcept {
    AttentionUnit unit{item, 0, item.num_members, 0, {}, true, false, {}};
    for (std::int64_t split = 0; split < item.shared_splits; ++split) {
      unit.splits = {split, split + 1};
      add(unit);
    }
    for (std::int64_t m = 0; m < item.num_members; ++m) {
      const AttentionTile tile = items_.tile(item, m);
      const SplitRange splits = own_splits(launch_, tile, item.shared_splits);
      const bool last_member = m + 1 == item.num_members;
      unit.member_begin = m, unit.member_end = m + 1;
      // A last member without own splits gets an empty unit: it ends the item.
      const std::int64_t end = last_member ? std::max(splits.end, splits.begin + 1) : splits.end;
      for (std::int64_t split = splits.begin; split < end; ++split) {
        unit.splits = {split, std::min(split + 1, splits.end)};
        unit.ends_item = last_member && split + 1 == end;
        add(unit);
      }
      unit.first_row += tile.num_tokens * launch_.group;
    }
  }

  void add(AttentionUnit& unit) noexcept {
    AttentionCarver carver(memory_.states + num_units_ * unit_bytes_);
    carver.take(unit.result, most_rows_, launch_.padded_dim);
    memory_.units[num_units_] = unit;
    unit.begins_item = false;
    if (++num_units_ == max_units_) run();
  }

  void run() noexcept {
    const std::int64_t grain = std::clamp<std::int64_t>(num_units_ / (4 * cpu_.num_threads()), 1, kUnitsPerChunk);
    cpu_.parallel_for(num_units_, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
      const AttentionScratch scratch = memory_.worker(launch_, worker);
      for (std::int64_t i = begin; i < end; ++i) {
        const AttentionUnit& unit = memory_.units[i];
        const MemberTiles members(items_, unit.item, unit.member_begin, unit.member_end);
        std::fill_n(unit.result.sum, members.num_tokens * launch_.group, 0.0f);
        if (i == begin || !unit.same_rows(memory_.units[i - 1])) functions_.prepare(launch_, members.tiles, members.count, scratch);
        functions_.attend(launch_, members.tiles, members.count, scratch, unit.result, unit.splits.begin, unit.splits.end);
      }
    });
    fold();
    num_units_ = 0;
  }

  /// Folds finished units, in order, into the states of the item they belong to, and finishes items that are complete.
  void fold() noexcept {
    const FloatEnvironment environment;
    for (std::int64_t i = 0; i < num_units_; ++i) {
      const AttentionUnit& unit = memory_.units[i];
      const MemberTiles members(items_, unit.item, unit.member_begin, unit.member_end);
      if (unit.begins_item) std::fill_n(memory_.fold.sum, launch_.rows, 0.0f);
      const AttentionRows total = memory_.fold.from(unit.first_row, launch_.padded_dim);
      functions_.merge(launch_, total, unit.result, members.num_tokens * launch_.group);
      if (unit.ends_item) finish(unit.item);
    }
  }

  void finish(const AttentionItem& item) noexcept {
    std::int64_t row = 0;
    for (std::int64_t m = 0; m < item.num_members; ++m) {
      const AttentionTile tile = items_.tile(item, m);
      functions_.finish(launch_, tile, memory_.fold.from(row, launch_.padded_dim));
      row += tile.num_tokens * launch_.group;
    }
  }

  Cpu& cpu_;
  const AttentionLaunch& launch_;
  const AttentionMemory& memory_;
  AttentionFunctions functions_;
  AttentionItems<KV, Q, Out> items_;
  std::int64_t most_rows_;
  std::int64_t unit_bytes_;
  std::int64_t max_units_;
  std::int64_t num_units_ = 0;
};

/// The work of a plan whose entries are `order`.
template <KVStorage KV, Element Q, Element Out>
void attend_planned(Cpu& cpu, const PagedAttentionArgs<KV, Q, Out>& args, const AttentionLaunch& launch, const AttentionMemory& memory,
                    const AttentionPlan& plan, const PlannedSeq* order) noexcept {
  const AttentionItems items(args, launch, order);
  const std::int64_t num_items = plan.num_items;
  if (cpu.num_threads() == 1 || num_items >= kItemsPerWorker * cpu.num_threads()) {
    attend_whole_items(cpu, items, launch, memory, num_items);
  } else {
    AttentionUnits(cpu, items, launch, memory, plan.most_rows).attend(num_items);
  }
}

/// The error of scratch that is too small or lies askew, or ok.
template <KVStorage KV, Element Q, Element Out>
Status check_scratch(const PagedAttentionArgs<KV, Q, Out>& args, const AttentionMemory& memory) noexcept {
  const auto given = static_cast<std::int64_t>(args.scratch.size());
  if (given < memory.used_bytes) {
    return {StatusCode::kCapacity, "paged_attention: scratch is smaller than paged_attention_scratch_bytes()", memory.used_bytes, given};
  }
  if (reinterpret_cast<std::uintptr_t>(args.scratch.data()) % kKVAlignment != 0) {
    return {StatusCode::kInvalidArgument, "paged_attention: scratch must be 64-byte aligned", 0, kKVAlignment};
  }
  return {};
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

/// Why pages of KV are copied before they are read instead of read in place; empty = they are read in place. Bits are the same.
template <KVStorage KV>
[[nodiscard]] constexpr std::string_view paged_attention_slow_reason(const KVDims& dims) noexcept {
  if (detail::reads_in_place<KV>(dims)) return {};
  if (dims.block_size % 16 != 0) return "pages are copied: block_size is no multiple of 16";
  if (dims.head_dim != detail::attention_padded_dim<KV>(dims.head_dim)) return "pages are copied: head_dim is no whole number of lanes";
  return "pages are copied: the kernel reads other codes or another layout";
}

/// paged_attention over tables that `validate_tables` accepts.
template <KVStorage KV, Element Q, Element Out>
[[nodiscard]] Status paged_attention(Cpu& cpu, const PagedAttentionArgs<KV, Q, Out>& args, TablesChecked) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  if (args.cascade_tokens != nullptr) *args.cascade_tokens = 0;
  const std::int64_t num_seqs = args.view.tables.num_seqs;
  if (args.num_tokens == 0 || num_seqs == 0) return {};
  const detail::AttentionLaunch launch = detail::make_launch(args);
  const detail::AttentionMemory memory(launch, cpu.num_threads(), args.scratch.data());
  if (const Status status = detail::check_scratch(args, memory); !status.ok()) return status;
  std::int64_t saved_tokens = 0;
  for (std::int64_t first = 0; first < num_seqs; first += detail::kPlannedSeqs) {
    PagedAttentionArgs<KV, Q, Out> part = args;
    part.seqs += first;
    part.view.tables.indptr += first;
    part.view.tables.kv_lens += first;
    part.view.tables.num_seqs = std::min(num_seqs - first, detail::kPlannedSeqs);
    const AttentionPlan plan = detail::plan_attention(part, launch, memory.order);
    detail::attend_planned(cpu, part, launch, memory, plan, memory.order);
    saved_tokens += plan.saved_tokens;
  }
  if (args.cascade_tokens != nullptr) *args.cascade_tokens = saved_tokens;
  return {};
}

/// paged_attention with the plan of its step (plan_paged_attention): nothing is planned or looked up in tables before the work begins.
/// Requires: spans and tables hold what they held when the plan was made.
template <KVStorage KV, Element Q, Element Out>
[[nodiscard]] Status paged_attention(Cpu& cpu, const PagedAttentionArgs<KV, Q, Out>& args, std::span<const std::byte> plan) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  if (args.cascade_tokens != nullptr) *args.cascade_tokens = 0;
  if (args.num_tokens == 0 || args.view.tables.num_seqs == 0) return {};
  const detail::AttentionLaunch launch = detail::make_launch(args);
  const detail::AttentionMemory memory(launch, cpu.num_threads(), args.scratch.data());
  if (const Status status = detail::check_scratch(args, memory); !status.ok()) return status;
  if (const Status status = detail::check_plan_bytes(plan, args.view.tables.num_seqs); !status.ok()) return status;
  AttentionPlan head;
  std::memcpy(&head, plan.data(), sizeof(head));
  if (const Status status = detail::check_plan(head, args, launch); !status.ok()) return status;
  const auto* order = reinterpret_cast<const detail::PlannedSeq*>(plan.data() + sizeof(head));
  detail::attend_planned(cpu, args, launch, memory, head, order);
  if (args.cascade_tokens != nullptr) *args.cascade_tokens = head.saved_tokens;
  return {};
}

/// See PagedAttentionArgs. Needs its scratch.
///
/// Scores and weighted sums take 64 absolute positions at a time, the softmax 32; partial results over 256 are folded in
/// ascending order: which worker does what changes no bit. Leading splits whose pages several sequences share are read once
/// for all of them (cascade). Keys and values are read as codes; 8- and 4-bit keys by integer dot products against queries of
/// 15 bits, 8-bit values with one scale likewise against weights of 14 bits of the largest one of 64 positions.
/// Threads: one launch at a time per Cpu. Cost: no allocation.
template <KVStorage KV, Element Q, Element Out>
[[nodiscard]] Status paged_attention(Cpu& cpu, const PagedAttentionArgs<KV, Q, Out>& args) noexcept {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return paged_attention(cpu, args, kTablesChecked);
}

KVPAGE_END_NAMESPACE
