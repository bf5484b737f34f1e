/// \file write_plan: turns the decided rows into the BatchPlan that a model runs.
#pragma once

#include <kvpage/sched/detail/transfers.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Tokens, positions, tables and slots of one sequence.
template <SchedulerCoreType Core>
void write_sequence(const Core& core, BatchPlan& batch, const PlannedRow& row) {
  const Request& r = core.requests[row.slot];
  const std::int64_t end = row.first_pos + row.count;
  batch.sequences.push_back({.q_begin = batch.num_tokens(), .q_count = row.count, .first_pos = row.first_pos});
  batch.owners.push_back({.request = r.id, .child = r.child, .seq = row.seq, .name_space = r.name_space,
                          .cached_tokens = row.admitted ? row.hit_tokens : -1});
  batch.kv_lens.push_back(end);
  batch.tokens.insert(batch.tokens.end(), r.tokens.begin() + row.first_pos, r.tokens.begin() + end);
  for (std::int64_t p = row.first_pos; p < end; ++p) batch.positions.push_back(p);
  for (std::int64_t g = 0; g < core.num_groups; ++g) {
    PlannedGroup& group = batch.groups[static_cast<std::size_t>(g)];
    const BlockTable table = core.cache->table(row.seq, g);
    const auto used = table.blocks.first(static_cast<std::size_t>(core.blocks_of(end)));
    group.block_ids.insert(group.block_ids.end(), used.begin(), used.end());
    group.indptr.push_back(static_cast<std::int64_t>(group.block_ids.size()));
    for (std::int64_t p = row.first_pos; p < end; ++p) {
      const KVSlot slot{used[static_cast<std::size_t>(p / core.block_size)], static_cast<std::uint32_t>(p % core.block_size)};
      group.write_slots.push_back(p < row.stored ? kNoSlot : slot);
    }
  }
}

/// A row that reaches the last known token gives logits: one sample, or one for every answer that starts there.
template <SchedulerCoreType Core>
void write_samples(const Core& core, BatchPlan& batch, PlannedRow& row) {
  const Request& r = core.requests[row.slot];
  if (row.first_pos + row.count < r.num_tokens()) return;
  const auto index = static_cast<std::int64_t>(batch.logit_rows.size());
  batch.logit_rows.push_back(batch.num_tokens() - 1);
  row.num_samples = r.forked ? 1 : r.num_children;
  for (std::uint32_t i = 0; i < row.num_samples; ++i) {
    batch.samples.push_back({.logit_index = index, .request = r.id, .child = r.forked ? r.child : i, .position = r.num_tokens(),
                             .seed = r.seed});
  }
}

/// Room for what sealing and committing the plan add to its lists.
template <SchedulerCoreType Core>
void reserve_outcome(Core& core) {
  auto& step = core.step;
  const std::size_t num_answers = step.rows.size() + step.batch.samples.size();
  reserve_more(step.ended, num_answers);
  reserve_more(step.forks, num_answers);
  if constexpr (Core::kTiered) {
    if (core.cache->tier() == nullptr) return;
    std::int64_t num_victims = 0;
    core.txn->for_each_victim([&](const CacheVictim&) { ++num_victims; });
    reserve_more(step.batch.demotions, static_cast<std::size_t>(num_victims * core.num_groups));
  }
}

/// Decoding rows first, then chunks; the order never changes a result. Rows of count 0 come last and are not written.
template <SchedulerCoreType Core>
void write_plan(Core& core) {
  auto& step = core.step;
  const auto take = [&](auto&& wanted) {
    for (const PlannedRow& row : step.unsorted) {
      if (wanted(row)) step.rows.push_back(row);
    }
  };
  take([](const PlannedRow& row) { return row.count == 1; });
  take([](const PlannedRow& row) { return row.count > 1; });
  take([](const PlannedRow& row) { return row.count == 0; });
  step.batch.step = step.serial;
  for (PlannedRow& row : step.rows) {
    if (row.count == 0) break;
    write_sequence(core, step.batch, row);
    write_samples(core, step.batch, row);
  }
  for (const Victim& victim : step.victims) {
    const Request& r = core.requests[victim.slot];
    step.batch.preemptions.push_back({.request = r.id, .child = r.child, .kind = victim.kind});
  }
  if constexpr (Core::kTiered) write_promotions(core);
  const auto copies = core.txn->copies();
  step.batch.copies.assign(copies.begin(), copies.end());
  reserve_outcome(core);
}

}  // namespace detail
KVPAGE_END_NAMESPACE
