/// \file Transfers of a step between the pool and its host tier: what is reserved and held for them, and what came of them.
#pragma once

#include <kvpage/cache/tier_extension.hpp>
#include <kvpage/sched/detail/finish.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Loads from the `num_loads`-th on leave the open plan, and the slots that are held for them.
template <SchedulerCoreType Core>
void release_loads(Core& core, std::size_t num_loads = 0, std::size_t num_slots = 0) {
  if (num_slots == core.step.load_slots.size()) return;
  release_slots(*core.cache->tier(), std::span{core.step.load_slots}.subspan(num_slots));
  core.step.load_slots.resize(num_slots);
  core.step.loads.resize(num_loads);
}

/// Forgets the open transaction and its loads.
template <SchedulerCoreType Core>
void forget_transaction(Core& core) {
  if constexpr (Core::kTiered) release_loads(core);
  core.txn.reset();
}

/// The pages of the loads, in the order of their slots.
template <SchedulerCoreType Core>
void write_promotions(Core& core) {
  for (const PlannedLoad& load : core.step.loads) {
    const Request& r = core.requests[load.slot];
    core.step.batch.loading.push_back({.request = r.id, .child = r.child, .seq = load.seq, .name_space = r.name_space,
                                       .cached_tokens = load.hit_blocks * core.block_size});
    for (std::int64_t k = 0; k < load.num_blocks * core.num_groups; ++k) {
      const std::uint32_t slot = core.step.load_slots[load.first_slot + static_cast<std::size_t>(k)];
      if (slot == kNoTierSlot) continue;
      const BlockTable table = core.cache->table(load.seq, k % core.num_groups);
      const auto entry = static_cast<std::size_t>(load.hit_blocks + k / core.num_groups);
      core.step.batch.promotions.push_back({.block = table.blocks[entry], .tier_slot = slot});
    }
  }
}

/// Last before the seal: reserves slots for what the plan overwrites.
template <SchedulerCoreType Core>
void save_victims(Core& core) {
  if constexpr (Core::kTiered) {
    if (core.cache->tier() == nullptr) return;
    demote_victims(*core.cache->tier(), *core.txn,
                   [&](BlockId block, std::uint32_t slot) { core.step.batch.demotions.push_back({block, slot}); });
  }
}

/// Demotions that were not carried out, and never will be, are cancelled; counts the others.
template <SchedulerCoreType Core>
void end_demotions(Core& core) {
  if constexpr (Core::kTiered) {
    for (const BlockDemotion& demotion : core.step.batch.demotions) {
      const TierTransfer state = core.cache->tier()->poll(demotion.tier_slot);
      core.stats.demoted += state == TierTransfer::kDone ? 1 : 0;
      const bool ended = state != TierTransfer::kPending || core.cache->tier()->cancel(demotion.tier_slot).has_value();
      KVPAGE_ASSERT(ended, "a reserved slot can be cancelled");
    }
  }
}

/// The step was aborted: its first `num_carried_out` promotions have ended their holds, the others have not.
template <SchedulerCoreType Core>
void release_promotions(Core& core, std::int64_t num_carried_out) {
  if constexpr (Core::kTiered) {
    const auto& promotions = core.step.batch.promotions;
    for (auto i = static_cast<std::size_t>(num_carried_out); i < promotions.size(); ++i) {
      const bool released = core.cache->tier()->release(promotions[i].tier_slot).has_value();
      KVPAGE_ASSERT(released, "a promotion that was not carried out still holds its slot");
    }
  }
}

/// The sequence keeps its first `num_tokens` tokens. False when it can not: a window has passed what the next one looks back at.
template <SchedulerCoreType Core>
bool cut_sequence(Core& core, SeqId seq, std::int64_t num_tokens) {
  auto txn = core.cache->begin();
  KVPAGE_ASSERT(txn.has_value(), "no transaction is open outside of plan");
  return txn->truncate(seq, num_tokens).has_value() && txn->commit().has_value();
}

/// What arrived is published, and the answer runs on behind it. What did not arrive is computed, and no more is loaded for this answer.
/// `outcomes`: those of this load.
template <SchedulerCoreType Core>
void finish_load(Core& core, const PlannedLoad& load, std::span<const PromotionOutcome> outcomes) {
  Request& r = core.requests[load.slot];
  const std::span<std::uint32_t> slots =
      std::span{core.step.load_slots}.subspan(load.first_slot, static_cast<std::size_t>(load.num_blocks * core.num_groups));
  std::size_t next = 0;
  for (std::uint32_t& slot : slots) {
    if (slot != kNoTierSlot && outcomes[next++] == PromotionOutcome::kFailed) slot = kNoTierSlot, r.load_failed = true;
  }
  if (r.pending_finish != FinishReason::kNone) return;
  r.state = RequestState::kRunning;
  const std::int64_t usable = usable_extension(core.cache->index(), PrefixHit{.num_blocks = load.hit_blocks}, slots);
  const std::int64_t loaded = (load.hit_blocks + usable) * core.block_size;
  if (usable < load.num_blocks && !cut_sequence(core, r.seq, loaded)) {
    release_blocks(core, r.seq);
    core.make_waiting(load.slot, core.last_now_ns);
    return;
  }
  const std::int64_t computed = std::min(loaded, r.num_tokens() - 1);
  r.cached_tokens += computed - r.num_computed;
  core.stats.cached_tokens += computed - r.num_computed;
  if (r.turn_until > 0) r.turn_until = core.end_of_turn(r, computed, core.shielded(r));
  r.num_computed = computed;
  r.num_stored = loaded;
  publish(core, r);
}

/// Every transfer of the step has ended.
template <SchedulerCoreType Core>
void finish_transfers(Core& core, std::span<const PromotionOutcome> outcomes) {
  end_demotions(core);
  const auto arrived = std::count(outcomes.begin(), outcomes.end(), PromotionOutcome::kArrived);
  core.stats.promoted += arrived;
  core.stats.failed_loads += std::ssize(outcomes) - arrived;
  for (const PlannedLoad& load : core.step.loads) {
    const auto begin = core.step.load_slots.begin() + static_cast<std::ptrdiff_t>(load.first_slot);
    const std::int64_t num_slots = load.num_blocks * core.num_groups;
    const auto num_pages = static_cast<std::size_t>(num_slots - std::count(begin, begin + num_slots, kNoTierSlot));
    finish_load(core, load, outcomes.first(num_pages));
    outcomes = outcomes.subspan(num_pages);
  }
  core.step.load_slots.clear();
}

}  // namespace detail
KVPAGE_END_NAMESPACE
