/// \file preemption_cost: what is lost and won when the blocks of a sequence are taken, and which way back would be the cheaper one.
#pragma once

#include <kvpage/sched/detail/scheduler_core.hpp>
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
template <class Core>
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

}  // namespace detail
KVPAGE_END_NAMESPACE
