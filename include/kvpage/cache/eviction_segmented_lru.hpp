/// \file SegmentedLru: two queues, so that content seen once cannot push out content that was hit.
#pragma once

#include <kvpage/cache/detail/digest.hpp>
#include <kvpage/cache/eviction_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Blocks that were hit since they were published go to the protected queue, others to probation; victims come from probation first.
/// A protected queue above its share gives its oldest block back to probation. Cost: O(1) per call.
/// Source: Karedla, Love, Wherry, "Caching strategies to improve disk system performance", 1994.
class SegmentedLru {
 public:
  static constexpr bool kNeedsLeaves = false;

  SegmentedLru() = default;
  /// Share of the pool that may be protected. Errors: ConfigError outside [0, 100].
  explicit SegmentedLru(std::int64_t protected_percent) : percent_(protected_percent) {
    if (percent_ < 0 || percent_ > 100) throw_config_error("the protected share must be in [0, 100]", percent_, 100, "percent");
  }

  void attach(std::span<detail::BlockRecord> records, std::int64_t num_blocks, detail::Arena& arena) {
    records_ = records;
    segment_ = arena.cut<std::uint8_t>(num_blocks);
    max_protected_ = num_blocks * percent_ / 100;
  }

  void on_published(std::uint32_t, const CachedBlockInfo&) noexcept {}
  /// The cookie names the block that was pushed back to probation, if any.
  std::uint64_t on_cached(std::uint32_t b, const CachedBlockInfo& info) noexcept {
    segment_[b] = info.hits > 0 ? kProtected : kProbation;
    queue(b).push_back(records_, b);
    if (queues_[kProtected].size() <= max_protected_) return detail::kNoLink;
    const std::uint32_t demoted = queues_[kProtected].head();
    move(demoted, kProbation, queues_[kProbation].tail());
    return demoted;
  }
  void undo_cached(std::uint32_t b, std::uint64_t demoted) noexcept {
    if (demoted != detail::kNoLink) move(static_cast<std::uint32_t>(demoted), kProtected, detail::kNoLink);
    queue(b).remove(records_, b);
  }
  std::uint64_t take(std::uint32_t b) noexcept { return queue(b).remove(records_, b) | (std::uint64_t{segment_[b]} << 32); }
  void untake(std::uint32_t b, std::uint64_t cookie) noexcept {
    segment_[b] = static_cast<std::uint8_t>(cookie >> 32);
    queue(b).insert_after(records_, static_cast<std::uint32_t>(cookie), b);
  }
  std::uint64_t on_leaf(std::uint32_t) noexcept { return 0; }
  void undo_leaf(std::uint32_t, std::uint64_t) noexcept {}
  void on_evicted(std::uint32_t) noexcept {}
  void expire(std::int64_t) noexcept {}

  [[nodiscard]] std::uint32_t victim() const noexcept {
    return queues_[queues_[kProbation].empty() ? kProtected : kProbation].head();
  }
  [[nodiscard]] std::int64_t size() const noexcept { return std::int64_t{queues_[kProbation].size()} + queues_[kProtected].size(); }
  [[nodiscard]] std::uint64_t digest() const {
    detail::Digest digest;
    for (const detail::BlockList& list : queues_) {
      digest.fold(list.size());
      list.for_each_checked(records_, [&](std::uint32_t b) { digest.fold(b); });
    }
    return digest.value;
  }
  void check() const {
    for (std::uint8_t s : {kProbation, kProtected}) {
      queues_[s].for_each_checked(records_, [&](std::uint32_t b) {
        KVPAGE_ASSERT(segment_[b] == s, "a cached block knows its queue");
        static_cast<void>(b);
      });
    }
    KVPAGE_ASSERT(queues_[kProtected].size() <= max_protected_, "the protected queue keeps to its share");
  }

 private:
  static constexpr std::uint8_t kProbation = 0;
  static constexpr std::uint8_t kProtected = 1;

  detail::BlockList& queue(std::uint32_t b) noexcept { return queues_[segment_[b]]; }
  void move(std::uint32_t b, std::uint8_t to, std::uint32_t after) noexcept {
    queue(b).remove(records_, b);
    segment_[b] = to;
    queue(b).insert_after(records_, after, b);
  }

  std::span<detail::BlockRecord> records_;
  std::span<std::uint8_t> segment_;
  detail::BlockList queues_[2];
  std::int64_t percent_ = 80;
  std::int64_t max_protected_ = 0;
};
static_assert(EvictionPolicy<SegmentedLru>);

KVPAGE_END_NAMESPACE
