/// \file Admission: a waiting request gets its row and first blocks, if there is room for what it will need.
#pragma once

#include <kvpage/sched/detail/plan_rows.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

enum class AdmissionOutcome : std::uint8_t { kAdmitted, kNoRow, kNoBudget, kNoBlocks };

/// Tries to give a waiting request its row and first blocks; changes nothing when it cannot. Child 0 stands for a whole beam: the
/// others start from its blocks once it has caught up, see plan_beam.
template <SchedulerCoreType Core>
AdmissionOutcome try_admit(Core& core, std::uint32_t slot) {
  const std::int64_t weight = core.row_weight(core.requests[slot]);
  if (core.plan.rows_in_use + weight > core.config.max_seqs) return AdmissionOutcome::kNoRow;
  const auto before = mark_plan(core);
  const AdmissionOutcome outcome = admit(core, slot);
  if (outcome == AdmissionOutcome::kAdmitted) {
    core.plan.rows_in_use += weight;
  } else {
    rollback_plan(core, before);
  }
  return outcome;
}

template <SchedulerCoreType Core>
AdmissionOutcome admit(Core& core, std::uint32_t slot) {
  Request& r = core.requests[slot];
  PlannedRow row{.slot = slot, .seq = r.seq, .first_pos = r.num_computed, .stored = r.num_stored, .admitted = true};
  const bool has_blocks = r.has_seq && !core.lost_blocks(r);
  if (!has_blocks && !start_sequence(core, slot, row, true)) return AdmissionOutcome::kNoRow;
  const std::int64_t n = row.loads ? 0 : chunk_rows(core, row.first_pos, core.catch_up_tokens(r) - row.first_pos);
  if (n == 0 && !row.loads) return AdmissionOutcome::kNoBudget;
  row.turn_until = core.end_of_turn(r, row.first_pos, shielded_after_plan(core, r));
  const AdmissionView view = admission_view(core, r, row, n);
  if (blocks_to_admit(core, r, row, view) > core.cache->capacity().available()) return AdmissionOutcome::kNoBlocks;
  if (!row.loads) row.count = reserve_rows(core, slot, row, n, false);
  if (row.count == 0 && !row.loads) return AdmissionOutcome::kNoBlocks;
  add_row(core, row);
  if (core.plan.running_known) count_running(core, r, row.seq, row.turn_until);
  return AdmissionOutcome::kAdmitted;
}

template <SchedulerCoreType Core>
[[nodiscard]] std::int64_t blocks_to_admit(const Core& core, const Request& r, const PlannedRow& row, const AdmissionView& view) {
  if (view.num_running == 0) return 0;  // alone it gets what is there, whatever a policy wants to keep free
  std::int64_t own = view.chunk_blocks;
  if (r.num_preemptions() > 0) own = std::max(own, view.prompt_blocks + core.num_groups);  // else it would be back at once
  if (shielded_after_plan(core, r)) own = std::max(own, view.full_blocks);
  if (row.turn_until > 0) own = std::max(own, missing_in_turn(core, r, row.seq, row.turn_until));
  return std::max(own + core.plan.turn_blocks, core.policies.admission.needed_blocks(view));
}

/// A plan that takes row or blocks may give them back: then it counts this time already.
[[nodiscard]] inline bool shielded_after_plan(const SchedulerState& core, const Request& r) {
  const std::int64_t now = (r.kept_in == core.step.serial ? 1 : 0) + (core.lost_blocks(r) ? 1 : 0);
  return r.num_preemptions() + now >= core.config.shield_after;
}

/// Blocks that a sequence misses until it has `num_tokens` tokens, if it keeps what it has.
template <SchedulerCoreType Core>
[[nodiscard]] std::int64_t missing_blocks(const Core& core, SeqId seq, std::int64_t num_tokens) {
  const std::int64_t have = core.blocks_of(core.cache->num_tokens(seq));
  return std::max<std::int64_t>(0, core.blocks_of(num_tokens) - have) * core.num_groups;
}

/// The same if it gives back what its windows have passed.
template <SchedulerCoreType Core>
[[nodiscard]] std::int64_t missing_in_the_end(const Core& core, SeqId seq, std::int64_t num_tokens) {
  if (!core.has_windows) return missing_blocks(core, seq, num_tokens);
  std::int64_t blocks = 0;
  for (std::int64_t g = 0; g < core.num_groups; ++g) {
    const BlockTable table = core.cache->table(seq, g);
    const std::int64_t held = core.held_blocks(g, num_tokens, core.config.chunk_align);
    blocks += std::max<std::int64_t>(0, held - (std::ssize(table.blocks) - table.first_live));
  }
  return blocks;
}
template <SchedulerCoreType Core>
[[nodiscard]] std::int64_t missing_at_end(const Core& core, const Request& r, SeqId seq) {
  const std::int64_t blocks = missing_in_the_end(core, seq, r.final_tokens());
  if (r.forked) return blocks;
  const std::int64_t own = core.blocks_of(r.final_tokens()) - r.prompt_tokens / core.block_size;  // of each further answer
  return blocks + (r.num_children - 1) * own * core.num_groups;
}

/// The same until a turn is over, whatever others do meanwhile: one block more for a copy; answers of a beam share their prompt at most.
template <SchedulerCoreType Core>
[[nodiscard]] std::int64_t missing_in_turn(const Core& core, const Request& r, SeqId seq, std::int64_t turn_until) {
  const std::int64_t end = std::min(turn_until, r.final_tokens());
  const std::int64_t shared = core.has_windows ? 0 : r.prompt_tokens / core.block_size;
  const std::int64_t others = r.beam ? (r.num_children - 1) * (core.blocks_of(end) - shared + 1) : 0;
  const std::int64_t own = core.has_windows ? missing_behind_windows(core, seq, end) : missing_blocks(core, seq, end);
  return own + (others + 1) * core.num_groups;
}

/// In the largest steps. A block that others hold too is not free again when a window has passed it.
template <SchedulerCoreType Core>
[[nodiscard]] std::int64_t missing_behind_windows(const Core& core, SeqId seq, std::int64_t num_tokens) {
  const std::int64_t rows = std::min(core.config.max_chunk_tokens, core.config.budget_tokens);
  std::int64_t blocks = 0;
  for (std::int64_t g = 0; g < core.num_groups; ++g) {
    const BlockTable table = core.cache->table(seq, g);
    const bool all = core.pool.window(g) == 0;
    const auto live = table.blocks.subspan(static_cast<std::size_t>(table.first_live));
    const auto counts = [&](BlockId block) { return all || core.cache->ref_count(block) == 1; };
    blocks += std::max<std::int64_t>(0, core.held_blocks(g, num_tokens, rows) - std::count_if(live.begin(), live.end(), counts));
  }
  return blocks;
}
[[nodiscard]] inline std::int64_t growth_of(const Request& r) noexcept {
  const std::int64_t tokens = std::min<std::int64_t>(r.max_new_tokens - r.num_new_tokens(), 4096);
  return r.forked ? tokens : tokens * r.num_children;
}

template <SchedulerCoreType Core>
[[nodiscard]] AdmissionView admission_view(Core& core, const Request& r, const PlannedRow& row, std::int64_t rows) {
  if (!core.plan.running_known) sum_up_running(core);
  AdmissionView view = core.plan.running_sums;
  view.chunk_blocks = missing_blocks(core, row.seq, row.first_pos + rows);
  view.prompt_blocks = missing_in_the_end(core, row.seq, r.num_tokens());
  view.full_blocks = missing_at_end(core, r, row.seq);
  view.growth_tokens = growth_of(r);
  return view;
}
[[nodiscard]] inline std::int64_t open_turn(const Request& r) noexcept { return r.num_computed < r.turn_until ? r.turn_until : 0; }

template <SchedulerCoreType Core>
void sum_up_running(Core& core) {
  core.plan.running_sums = {.block_size = core.block_size, .num_groups = core.num_groups};
  core.plan.turn_blocks = 0;
  core.plan.running_known = true;
  for (const std::uint32_t slot : core.running) {
    const Request& r = core.requests[slot];
    if (!core.lost_row(r)) count_running(core, r, r.seq, open_turn(r));
  }
  for (const PlannedRow& row : core.step.unsorted) {
    if (row.admitted) count_running(core, core.requests[row.slot], row.seq, row.turn_until);
  }
}
template <SchedulerCoreType Core>
void count_running(Core& core, const Request& r, SeqId seq, std::int64_t turn_until) {
  ++core.plan.running_sums.num_running;
  core.plan.running_sums.running_prompt_blocks += missing_in_the_end(core, seq, r.num_tokens());
  core.plan.running_sums.running_full_blocks += missing_at_end(core, r, seq);
  core.plan.running_sums.running_growth_tokens += growth_of(r);
  if (turn_until > 0) core.plan.turn_blocks += missing_in_turn(core, r, seq, turn_until);
}

}  // namespace detail
KVPAGE_END_NAMESPACE
