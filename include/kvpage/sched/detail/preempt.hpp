/// \file Preemption: what it costs, who gives way in a plan, and what becomes of whoever did.
#pragma once

#include <kvpage/sched/detail/plan_mark.hpp>
#include <kvpage/sched/preemption_policy.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

struct PreemptionCost {
  std::int64_t freed_blocks = 0;  ///< blocks that nobody else holds
  std::int64_t lost_ns = 0;
  PreemptionKind kind = PreemptionKind::kRecompute;
};

/// Blocks that others hold too free nothing and stay findable. The others are computed again, or, where that is cheaper, saved in the host
/// tier when they are overwritten, and loaded again. Requires: r has blocks.
template <SchedulerCoreType Core>
[[nodiscard]] PreemptionCost preemption_cost(const Core& core, const Request& r) {
  PreemptionCost cost;
  for (std::int64_t g = 0; g < core.num_groups; ++g) {
    const BlockTable table = core.cache->table(r.seq, g);
    for (const BlockId block : table.blocks) cost.freed_blocks += block != kNoBlock && core.cache->ref_count(block) == 1 ? 1 : 0;
  }
  const StepCosts costs = core.env->costs();
  const std::int64_t lost_tokens = std::min(r.num_computed, cost.freed_blocks / core.num_groups * core.block_size);
  cost.lost_ns = lost_tokens * costs.prefill_ns_per_token;
  if constexpr (Core::kTiered) {
    const std::int64_t both_ways_ns = 2 * cost.freed_blocks * costs.copy_ns_per_block;
    const auto* tier = core.cache->tier();
    if (tier == nullptr || cost.freed_blocks > tier->config().num_slots || both_ways_ns >= cost.lost_ns) return cost;
    cost.lost_ns = both_ways_ns;
    cost.kind = PreemptionKind::kDemote;
  }
  return cost;
}

[[nodiscard]] inline bool any_member_planned(const SchedulerState& core, std::uint32_t slot) {
  bool any = false;
  core.for_each_member(slot, [&](std::uint32_t member) { any = any || core.planned(core.requests[member]); });
  return any;
}

[[nodiscard]] inline bool eligible(const SchedulerState& core, std::uint32_t slot, std::uint32_t beneficiary, bool parked) {
  const Request& v = core.requests[slot];
  const Request& b = core.requests[beneficiary];
  if (slot == beneficiary || core.leads(slot) || core.planned(v) || core.lost_blocks(v) || !v.has_seq) return false;
  if (v.beam && v.forked && (v.family == b.family || any_member_planned(core, slot))) return false;
  if (!parked && v.kept_in == core.step.serial) return false;
  if (core.leads(beneficiary) || core.holds_turn(b) || core.running.empty()) return true;
  if (!parked && core.shielded(v)) return false;
  return core.position(slot) > core.position(beneficiary);
}

/// Takes the blocks of the sequence that loses least, among those behind the beneficiary. False when there is none. Admission keeps
/// room for every turn; should the room be gone all the same, and no pin yield, the turn that leads goes before the others.
template <SchedulerCoreType Core>
bool preempt_one(Core& core, std::uint32_t beneficiary) {
  return preempt_one(core, beneficiary, false) ||
         (core.leads(beneficiary) && core.cache->capacity().pinned == 0 && preempt_one(core, beneficiary, true));
}
template <SchedulerCoreType Core>
bool preempt_one(Core& core, std::uint32_t beneficiary, bool from_turns) {
  std::uint32_t best = kNoRequestSlot;
  PreemptionCandidate best_cost{};
  const auto consider = [&](std::uint32_t slot, bool parked) {
    if (!eligible(core, slot, beneficiary, parked) || (core.holds_turn(core.requests[slot]) && !from_turns)) return;
    PreemptionCandidate cost = cost_of(core, slot);
    if (parked) cost.lost_ns = 0;  // blocks without a row go first
    if (best == kNoRequestSlot || core.policies.preemption.worse(cost, best_cost)) best = slot, best_cost = cost;
  };
  for (const std::uint32_t slot : core.parked) consider(slot, true);
  for (const Victim& v : core.step.victims) {
    if (v.keeps_blocks()) consider(v.slot, true);
  }
  if (best == kNoRequestSlot) {
    for (const std::uint32_t slot : core.running) consider(slot, false);
  }
  if (best == kNoRequestSlot) return false;
  take_blocks(core, best);
  return true;
}

inline void give_up_row(SchedulerState& core, const Request& r) {
  core.plan.rows_in_use -= core.row_weight(r);
  if (r.decoding() && r.visited_in != core.step.serial) --core.plan.decodes_left;
}

/// Takes row and blocks, or the row alone.
template <SchedulerCoreType Core>
void take_blocks(Core& core, std::uint32_t slot) {
  core.for_each_member(slot, [&](std::uint32_t member) {
    Request& r = core.requests[member];
    if (!r.has_seq) return;
    const bool had_row = r.state == RequestState::kRunning && !core.lost_row(r);
    const PreemptionKind kind = preemption_cost(core, r).kind;
    const auto done = core.txn->release(r.seq);
    if (!done) return;  // the undo log is full: it keeps its blocks, and the beneficiary waits a step
    if (had_row) give_up_row(core, r);
    r.victim_in = core.step.serial;
    core.step.victims.push_back({.slot = member, .seq = r.seq, .kind = kind});
    core.plan.preempted_for_growth = true;
  });
}
inline void take_row(SchedulerState& core, std::uint32_t slot) {
  Request& r = core.requests[slot];
  give_up_row(core, r);
  r.kept_in = core.step.serial;
  core.step.victims.push_back({.slot = slot, .seq = r.seq, .kind = PreemptionKind::kKeep});
}

/// Summed over the members of a beam.
template <SchedulerCoreType Core>
[[nodiscard]] PreemptionCandidate cost_of(const Core& core, std::uint32_t slot) {
  const Request& first = core.requests[slot];
  PreemptionCandidate cost{.base_priority = first.base_priority, .key = first.key, .new_tokens = first.num_new_tokens()};
  core.for_each_member(slot, [&](std::uint32_t member) {
    if (!core.requests[member].has_seq) return;
    const PreemptionCost one = preemption_cost(core, core.requests[member]);
    cost.freed_blocks += one.freed_blocks, cost.lost_ns += one.lost_ns;
  });
  return cost;
}

/// What the plan took is gone now.
template <SchedulerCoreType Core>
void apply_victim(Core& core, const Victim& victim) {
  Request& r = core.requests[victim.slot];
  if (victim.keeps_blocks()) {
    ++r.preempted_keep, ++core.stats.preempted_keep;
    core.stop_running(victim.slot);
    r.state = RequestState::kParked;
    core.parked.push_back(victim.slot);
    core.enqueue(victim.slot, core.last_now_ns);
    return;
  }
  const bool demoted = victim.kind == PreemptionKind::kDemote;
  demoted ? ++r.preempted_demote : ++r.preempted_recompute;
  demoted ? ++core.stats.preempted_demote : ++core.stats.preempted_recompute;
  core.policies.admission.on_preemption(r.num_new_tokens(), r.max_new_tokens, static_cast<std::int64_t>(core.running.size()));
  if (r.state == RequestState::kRunning) {
    core.make_waiting(victim.slot, core.last_now_ns);
    return;
  }
  core.unpark(victim.slot);
  SchedulerState::forget_blocks(r);
  r.state = RequestState::kWaiting;
}

template <SchedulerCoreType Core>
void apply_admission(Core& core, const PlannedRow& row) {
  Request& r = core.requests[row.slot];
  core.dequeue(r.beam ? r.family : row.slot);
  if (r.state == RequestState::kParked) core.unpark(row.slot);
  r.has_seq = true;
  r.seq = row.seq;
  r.num_computed = row.first_pos;
  r.num_stored = row.stored;
  r.num_published = row.stored / core.block_size * core.block_size;
  r.turn_until = row.turn_until;
  core.start_running(row.slot);
  if (row.loads) r.state = RequestState::kLoading;
}

}  // namespace detail
KVPAGE_END_NAMESPACE
