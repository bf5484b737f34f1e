/// \file The marks of a plan: it begins, and what was tried in vain goes back.
#pragma once

#include <kvpage/sched/detail/transfers.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Nothing outside of the step record and the open transaction changes, except scratch marks that carry the plan's serial, so a plan
/// can be dropped at any time.
template <SchedulerCoreType Core>
void begin_plan(Core& core) {
  core.step.clear(core.num_groups);
  core.txn.reset();
  auto txn = core.cache->begin();
  KVPAGE_ASSERT(txn.has_value(), "nobody else has a transaction open");
  core.txn.emplace(std::move(*txn));
  core.plan.begin(core.config.budget_tokens);
  core.plan.rows_in_use = core.rows_in_use();
  for (const std::uint32_t slot : core.running) core.plan.decodes_left += core.requests[slot].decoding() ? 1 : 0;
}

template <SchedulerCoreType Core>
[[nodiscard]] PlanMark mark_plan(const Core& core) {
  return {core.txn->mark(), core.step.unsorted.size(), core.step.victims.size(), core.step.loads.size(), core.step.load_slots.size(),
          core.plan};
}
template <SchedulerCoreType Core>
void rollback_plan(Core& core, const PlanMark& mark) {
  PlanRecord& step = core.step;
  core.txn->rollback_to(mark.savepoint);
  if constexpr (Core::kTiered) release_loads(core, mark.num_loads, mark.num_load_slots);
  for (std::size_t i = mark.num_rows; i < step.unsorted.size(); ++i) core.requests[step.unsorted[i].slot].planned_in = 0;
  for (std::size_t i = mark.num_victims; i < step.victims.size(); ++i) {
    Request& r = core.requests[step.victims[i].slot];
    (step.victims[i].keeps_blocks() ? r.kept_in : r.victim_in) = 0;
  }
  step.unsorted.resize(mark.num_rows);
  step.victims.resize(mark.num_victims);
  static_cast<PlanCounts&>(core.plan) = mark.counts;
}

}  // namespace detail
KVPAGE_END_NAMESPACE
