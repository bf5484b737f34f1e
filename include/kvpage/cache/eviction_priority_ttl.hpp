/// \file PriorityTtl: the least priority goes first, the oldest among equals; wishes can end at a time.
#pragma once

#include <kvpage/cache/detail/leaf_queue.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Retention priority 0 to 100, then age. After its expiry a wish counts as the default priority. Time is what `expire` was last told.
/// Cost: O(log num_blocks) per call; expire is linear.
class PriorityTtl : public detail::LeafQueue {
 public:
  void attach(std::span<detail::BlockRecord>, std::int64_t num_blocks, detail::Arena& arena) {
    attach_queue(num_blocks, arena);
    expires_at_ns_ = arena.cut<std::int64_t>(num_blocks);
  }

  std::uint64_t on_cached(std::uint32_t b, const CachedBlockInfo& info) noexcept {
    const bool over = info.expires_at_ns != 0 && info.expires_at_ns <= now_ns_;
    expires_at_ns_[b] = over ? 0 : info.expires_at_ns;
    const std::uint64_t priority = over ? kDefaultRetentionPriority : info.priority;
    return enter(b, (priority << kReleaseBits) | next_release_++, info.leaf);
  }
  void on_evicted(std::uint32_t) noexcept {}

  void expire(std::int64_t now_ns) noexcept {
    now_ns_ = now_ns;
    for (std::uint32_t b = 0; b < num_blocks(); ++b) {
      if (expires_at_ns_[b] == 0 || expires_at_ns_[b] > now_ns) continue;
      expires_at_ns_[b] = 0;
      const std::uint64_t release = key(b) & ((std::uint64_t{1} << kReleaseBits) - 1);
      rekey(b, (std::uint64_t{kDefaultRetentionPriority} << kReleaseBits) | release);
    }
  }

 private:
  static constexpr int kReleaseBits = 56;  // 2^56 releases: more than a thousand years at a million per second

  std::span<std::int64_t> expires_at_ns_;
  std::int64_t now_ns_ = 0;
  std::uint64_t next_release_ = 1;
};
static_assert(EvictionPolicy<PriorityTtl>);

KVPAGE_END_NAMESPACE
