/// \file One plan: the leader, urgent requests, those that run, those that wait.
#pragma once

#include <kvpage/sched/detail/order_hooks.hpp>
#include <kvpage/sched/detail/plan_admission.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

[[nodiscard]] inline bool leads_before(const SchedulerState& core, const Request& a, const Request& b) {
  const bool turn = core.holds_turn(a);
  if (turn != core.holds_turn(b)) return turn;
  const auto since = [&core](const Request& r) { return core.waiter(r).waiting_since_ns; };
  if (turn && since(a) != since(b)) return since(a) < since(b);
  return a.key != b.key ? a.key < b.key : a.child < b.child;
}

/// Among those whose turn it is, the one that had waited since the earliest moment; else the smallest rank among those that run.
/// Nobody takes its blocks, and it is planned first.
[[nodiscard]] inline std::uint32_t find_leader(const SchedulerState& core) {
  std::uint32_t leader = kNoRequestSlot;
  for (const std::uint32_t slot : core.running) {
    if (leader == kNoRequestSlot || leads_before(core, core.requests[slot], core.requests[leader])) leader = slot;
  }
  return leader;
}

/// Whoever has waited longest, if that is too long.
inline void find_overdue(SchedulerState& core) {
  core.plan.overdue = core.waiting.oldest();
  if (core.plan.overdue != kNoRequestSlot && !core.overdue(core.requests[core.plan.overdue])) core.plan.overdue = kNoRequestSlot;
}
[[nodiscard]] inline bool may_not_be_bypassed(const SchedulerState& core, const Request& r) {
  return r.bypassed + (r.bypassed_in == core.step.serial ? r.bypassed_now : 0) >= core.config.max_bypasses;
}

inline void count_bypass(SchedulerState& core, std::uint32_t slot) {
  Request& r = core.requests[slot];
  if (std::exchange(r.bypassed_in, core.step.serial) != core.step.serial) r.bypassed_now = 0, core.step.bypassed.push_back(slot);
  ++r.bypassed_now;
}

/// Who takes rows from others overtakes whoever is overdue, and that is bounded: in the end nobody takes a row before that one has one.
[[nodiscard]] inline bool waits_for_overdue(const SchedulerState& core, std::uint32_t slot) {
  const std::uint32_t overdue = core.plan.overdue;
  return overdue != kNoRequestSlot && overdue != slot && !core.planned(core.requests[overdue]) &&
         may_not_be_bypassed(core, core.requests[overdue]);
}

template <SchedulerCoreType Core>
void plan_others(Core& core) {
  for (const std::uint32_t slot : core.running) plan_running(core, slot);
}

/// The first in the queue, if it is before the leader and more urgent, leads from now on, provided that it gets in. Turns end first.
template <SchedulerCoreType Core>
bool new_leader_takes_over(Core& core) {
  core.waiting.begin_walk();
  const std::uint32_t head = core.waiting.walk();
  if (head == kNoRequestSlot) return false;
  const std::uint32_t leader = core.plan.leader;
  if (core.holds_turn(core.requests[leader]) || waits_for_overdue(core, head)) return false;
  const Request& first = core.requests[head];
  if (first.base_priority >= core.requests[leader].base_priority || first.key > core.requests[leader].key) return false;
  core.plan.leader = head;
  if (admit_by_force(core, head)) return true;
  core.plan.leader = leader;
  return false;
}

/// Takes rows and blocks from less urgent sequences for the first in the queue, as long as that gets it in.
template <SchedulerCoreType Core>
void admit_urgent(Core& core) {
  core.waiting.begin_walk();
  for (std::uint32_t slot = core.waiting.walk(); slot != kNoRequestSlot; slot = core.waiting.walk()) {
    if (core.planned(core.requests[slot])) continue;
    if (waits_for_overdue(core, slot) || least_urgent_behind(core, slot) == kNoRequestSlot || !admit_by_force(core, slot)) return;
  }
}

template <SchedulerCoreType Core>
bool admit_by_force(Core& core, std::uint32_t slot) {
  const auto before = mark_plan(core);
  core.plan.running_known = false;
  AdmissionOutcome outcome = try_admit(core, slot);
  while (outcome == AdmissionOutcome::kNoRow || outcome == AdmissionOutcome::kNoBlocks) {
    const std::uint32_t victim = least_urgent_behind(core, slot);
    if (victim == kNoRequestSlot) break;
    if (outcome == AdmissionOutcome::kNoRow && can_park(core, victim)) {
      take_row(core, victim);
    } else {
      take_blocks(core, victim);
    }
    if (!core.lost_row(core.requests[victim])) break;
    core.plan.running_known = false;
    outcome = try_admit(core, slot);
  }
  if (outcome != AdmissionOutcome::kAdmitted) {
    rollback_plan(core, before);
    return false;
  }
  if (core.plan.overdue != kNoRequestSlot && !core.planned(core.requests[core.plan.overdue])) count_bypass(core, core.plan.overdue);
  return true;
}

/// Whoever runs with a base priority less urgent than that of `slot`, the last of them. Equals never give way, nor does anybody whose
/// turn it is, and whoever has given way often gives way to the leader alone.
[[nodiscard]] inline std::uint32_t least_urgent_behind(const SchedulerState& core, std::uint32_t slot) {
  for (std::size_t i = core.running.size(); i-- > 0;) {
    const std::uint32_t candidate = core.running[i];
    const Request& r = core.requests[candidate];
    if (r.base_priority <= core.requests[slot].base_priority) return kNoRequestSlot;
    const bool guarded = core.holds_turn(r) || (!core.leads(slot) && core.shielded(r));
    if (!core.leads(candidate) && !core.planned(r) && !core.lost_row(r) && !guarded) return candidate;
  }
  return kNoRequestSlot;
}

/// Only sequences that stand alone are parked, and only while ids are left for all that run.
[[nodiscard]] inline bool can_park(const SchedulerState& core, std::uint32_t slot) {
  const auto parked = static_cast<std::int64_t>(core.parked.size() + core.step.victims.size());
  return !core.requests[slot].beam && core.pool.max_seqs > core.config.max_seqs + parked;
}

/// Rows for those that wait, as long as there are rows, budget and blocks.
template <SchedulerCoreType Core>
void admit_waiting(Core& core) {
  if (core.plan.rows_in_use >= core.config.max_seqs) return;
  collect_candidates(core);
  for (std::uint32_t slot = next_candidate(core); slot != kNoRequestSlot; slot = next_candidate(core)) {
    Request& r = core.requests[slot];
    if (core.planned(r) || (core.plan.look_ahead > 0 && waits_for_publish(core, slot))) continue;
    if (core.plan.leader == kNoRequestSlot) core.plan.leader = slot;  // nobody runs: it may take the blocks of all that are parked
    AdmissionOutcome outcome = try_admit(core, slot);
    while (outcome == AdmissionOutcome::kNoBlocks && core.leads(slot) && preempt_one(core, slot)) outcome = try_admit(core, slot);
    if (outcome == AdmissionOutcome::kNoBlocks && core.leads(slot)) {
      core.plan.partial_hits = false;
      outcome = try_admit(core, slot);
      core.plan.partial_hits = true;
    }
    if (outcome == AdmissionOutcome::kNoRow || outcome == AdmissionOutcome::kNoBudget) return;
    if (outcome == AdmissionOutcome::kNoBlocks) {
      if (core.overdue(r) || core.leads(slot) || may_not_be_bypassed(core, r)) return;
      core.plan.blocked.push_back(slot);
      if (static_cast<std::int64_t>(core.plan.blocked.size()) >= core.config.max_examined) return;
      continue;
    }
    for (const std::uint32_t passed : core.plan.blocked) count_bypass(core, passed);
    const auto stops = [&](std::uint32_t passed) { return may_not_be_bypassed(core, core.requests[passed]); };
    if (std::any_of(core.plan.blocked.begin(), core.plan.blocked.end(), stops)) return;
  }
}

/// Candidates in order: the longest waiting one if it is overdue, then the walk of the queue, or the longest hits of its start.
template <SchedulerCoreType Core>
void collect_candidates(Core& core) {
  core.waiting.begin_walk();
  core.plan.first = core.plan.overdue;
  core.plan.look_ahead = Core::kIndexed ? static_cast<std::size_t>(look_ahead(core.policies.order)) : 0;
  if (core.plan.look_ahead > 0) rank_candidates(core);
}
inline std::uint32_t next_candidate(SchedulerState& core) {
  if (core.plan.first != kNoRequestSlot) return std::exchange(core.plan.first, kNoRequestSlot);
  if (core.plan.look_ahead == 0) return core.waiting.walk();
  return core.plan.next_ranked == core.plan.ranked.size() ? kNoRequestSlot : core.plan.ranked[core.plan.next_ranked++].slot;
}

inline constexpr std::int64_t kMaxHeldSteps = 8;

/// True when the order lets the request wait for a prompt that is being computed.
template <SchedulerCoreType Core>
bool waits_for_publish(Core& core, std::uint32_t slot) {
  Request& r = core.requests[slot];
  if (r.held_steps >= kMaxHeldSteps || core.running.empty()) return false;
  std::int64_t cached = 0;
  for (const RankedCandidate& ranked : core.plan.ranked) cached = ranked.slot == slot ? ranked.cached_tokens : cached;
  for (const std::uint32_t other : core.running) {
    const Request& prompt = core.requests[other];
    if (prompt.num_computed >= prompt.prompt_tokens || prompt.name_space != r.name_space) continue;
    const auto end = r.tokens.begin() + std::min(r.num_tokens(), prompt.num_tokens());
    const std::int64_t shared = std::mismatch(r.tokens.begin(), end, prompt.tokens.begin()).first - r.tokens.begin();
    if (!waits_for(core.policies.order, {.shared_tokens = shared, .cached_tokens = cached})) continue;
    core.step.held.push_back(slot);
    r.held_in = core.step.serial;
    return true;
  }
  return false;
}

template <SchedulerCoreType Core>
void rank_candidates(Core& core) {
  std::vector<RankedCandidate>& ranked = core.plan.ranked;
  ranked.clear(), core.plan.next_ranked = 0;
  while (ranked.size() < core.plan.look_ahead) {
    const std::uint32_t slot = core.waiting.walk();
    if (slot == kNoRequestSlot) break;
    const Request& r = core.requests[slot];
    std::int64_t hit = 0;
    if constexpr (Core::kIndexed) hit = core.cache->match({.name_space = r.name_space, .tokens = r.tokens}).num_tokens;
    ranked.push_back({rank_by_hit(core.policies.order, r.view(), hit), hit, slot});
  }
  std::sort(ranked.begin(), ranked.end(), [&core](const RankedCandidate& a, const RankedCandidate& b) {
    return a.rank != b.rank ? a.rank < b.rank : core.requests[a.slot].key < core.requests[b.slot].key;
  });
}

/// Makes the plan that begin_plan has begun.
template <SchedulerCoreType Core>
void plan_step(Core& core) {
  const bool joins = core.running.empty() || may_join(core.policies.order, core.batch);
  core.plan.leader = find_leader(core);
  find_overdue(core);
  if (!core.running.empty() && !(joins && new_leader_takes_over(core))) plan_running(core, core.plan.leader);
  if (joins) admit_urgent(core);
  plan_others(core);
  core.plan.running_known = false;
  if (joins && !core.plan.preempted_for_growth) admit_waiting(core);
}

}  // namespace detail
KVPAGE_END_NAMESPACE
