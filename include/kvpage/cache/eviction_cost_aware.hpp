/// \file CostAware: what is cheap to compute again goes first, with ageing.
#pragma once

#include <kvpage/cache/detail/leaf_queue.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE

/// GreedyDual: a block's value is its recomputation cost times (1 + hits), on top of the value of the last block that was evicted, so
/// that unused blocks age. A block of unknown cost counts as one nanosecond.
/// Cost: O(log num_blocks) per call.
/// Source: Young, "The k-server dual and loose competitiveness for paging", 1994; Cao, Irani, "Cost-aware WWW proxy caching", 1997.
class CostAware : public detail::LeafQueue {
 public:
  void attach(std::span<detail::BlockRecord>, std::int64_t num_blocks, detail::Arena& arena) { attach_queue(num_blocks, arena); }

  std::uint64_t on_cached(std::uint32_t b, const CachedBlockInfo& info) noexcept {
    const auto cost = static_cast<std::uint64_t>(std::clamp<std::int64_t>(info.recompute_ns, 1, kMaxCostNs));
    const std::uint64_t uses = std::min<std::uint64_t>(info.hits, kMaxHits) + 1;
    return enter(b, age_ + cost * uses, info.leaf);
  }
  void on_evicted(std::uint32_t b) noexcept { age_ = std::max(age_, key(b)); }
  void expire(std::int64_t) noexcept {}

 private:
  static constexpr std::int64_t kMaxCostNs = 1'000'000'000;
  static constexpr std::uint64_t kMaxHits = 1'000'000;

  std::uint64_t age_ = 0;
};
static_assert(EvictionPolicy<CostAware>);

KVPAGE_END_NAMESPACE
