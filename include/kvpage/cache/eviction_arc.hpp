/// \file Arc: balances recency against frequency by itself, from what came back soon after it was evicted.
#pragma once

#include <kvpage/cache/detail/block_heap.hpp>
#include <kvpage/cache/eviction_policy.hpp>

#include <algorithm>
#include <bit>

KVPAGE_BEGIN_NAMESPACE

/// Adaptive replacement: blocks seen once (recent) and blocks hit or published again (frequent), and a target for the size of the
/// first part. Content that is published again after its eviction (a ghost) moves the target towards the part that lost it. The
/// ghosts lie in a direct-mapped table of at least num_blocks keys, where a newer one replaces an older one on a clash.
/// Cost: O(log num_blocks) per call.
/// Source: Megiddo, Modha, "ARC: a self-tuning, low overhead replacement cache", 2003.
class Arc {
 public:
  static constexpr bool kNeedsLeaves = true;

  void attach(std::span<detail::BlockRecord>, std::int64_t num_blocks, detail::Arena& arena) {
    keys_.attach(arena, num_blocks);
    for (detail::BlockHeap& heap : heaps_) heap.attach(arena, num_blocks);
    content_ = arena.cut<std::uint64_t>(num_blocks);
    frequent_ = arena.cut<std::uint8_t>(num_blocks);
    ghosts_ = arena.cut<Ghost>(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(num_blocks))));
    capacity_ = num_blocks;
  }

  void on_published(std::uint32_t b, const CachedBlockInfo& info) noexcept {
    content_[b] = info.content_key;
    Ghost& ghost = ghost_of(info.content_key);
    frequent_[b] = ghost.part != kNoPart && ghost.content == info.content_key;
    if (!frequent_[b]) return;
    const std::int64_t own = num_ghosts_[ghost.part];
    const std::int64_t step = std::max<std::int64_t>(1, num_ghosts_[1 - ghost.part] / own);
    target_recent_ = ghost.part == kRecent ? std::min(capacity_, target_recent_ + step) : std::max<std::int64_t>(0, target_recent_ - step);
    forget(ghost);
  }
  std::uint64_t on_cached(std::uint32_t b, const CachedBlockInfo& info) noexcept {
    const std::uint64_t before = keys_.key(b);
    const std::uint64_t part = info.hits > 0 || frequent_[b] != 0 ? kFrequent : kRecent;
    keys_.key(b) = (part << 63) | next_release_++;
    ++size_;
    ++num_cached_[part];
    if (info.leaf) heap(b).push(keys_, b);
    return before;
  }
  void undo_cached(std::uint32_t b, std::uint64_t before) noexcept {
    take(b);
    keys_.key(b) = before;
  }
  std::uint64_t take(std::uint32_t b) noexcept {
    const bool was_leaf = keys_.position(b) != detail::kNoLink;
    if (was_leaf) heap(b).remove(keys_, b);
    --size_;
    --num_cached_[part_of(b)];
    return was_leaf ? 1 : 0;
  }
  void untake(std::uint32_t b, std::uint64_t was_leaf) noexcept {
    ++size_;
    ++num_cached_[part_of(b)];
    if (was_leaf != 0) heap(b).push(keys_, b);
  }
  std::uint64_t on_leaf(std::uint32_t b) noexcept {
    if (keys_.position(b) != detail::kNoLink) return 0;
    heap(b).push(keys_, b);
    return 1;
  }
  void undo_leaf(std::uint32_t b, std::uint64_t pushed) noexcept {
    if (pushed != 0) heap(b).remove(keys_, b);
  }
  void on_evicted(std::uint32_t b) noexcept {
    Ghost& ghost = ghost_of(content_[b]);
    forget(ghost);
    ghost = {content_[b], static_cast<std::uint8_t>(part_of(b))};
    ++num_ghosts_[ghost.part];
  }
  void expire(std::int64_t) noexcept {}

  [[nodiscard]] std::uint32_t victim() const noexcept {
    const std::uint32_t recent = heaps_[kRecent].top();
    const std::uint32_t frequent = heaps_[kFrequent].top();
    if (recent == detail::kNoLink || frequent == detail::kNoLink) return std::min(recent, frequent);
    return num_cached_[kRecent] > target_recent_ ? recent : frequent;
  }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t digest() const noexcept {
    detail::Digest digest;
    digest.fold(heaps_[kRecent].digest(keys_));
    digest.fold(heaps_[kFrequent].digest(keys_));
    digest.fold(static_cast<std::uint64_t>(target_recent_ * capacity_ + size_));
    return digest.value;
  }
  void check() const {
    for (const detail::BlockHeap& heap : heaps_) heap.check(keys_);
    KVPAGE_ASSERT(num_cached_[kRecent] + num_cached_[kFrequent] == size_, "the two parts add up");
  }

 private:
  static constexpr std::uint8_t kRecent = 0;
  static constexpr std::uint8_t kFrequent = 1;
  static constexpr std::uint8_t kNoPart = 2;
  struct Ghost {
    std::uint64_t content = 0;
    std::uint8_t part = kNoPart;
  };

  [[nodiscard]] std::uint64_t part_of(std::uint32_t b) const noexcept { return keys_.key(b) >> 63; }
  [[nodiscard]] detail::BlockHeap& heap(std::uint32_t b) noexcept { return heaps_[part_of(b)]; }
  [[nodiscard]] Ghost& ghost_of(std::uint64_t content) noexcept { return ghosts_[content & (ghosts_.size() - 1)]; }
  void forget(Ghost& ghost) noexcept {
    if (ghost.part != kNoPart) --num_ghosts_[ghost.part];
    ghost.part = kNoPart;
  }

  detail::KeyTable keys_;
  detail::BlockHeap heaps_[2];
  std::span<std::uint64_t> content_;
  std::span<std::uint8_t> frequent_;
  std::span<Ghost> ghosts_;
  std::int64_t num_ghosts_[2] = {};
  std::int64_t num_cached_[2] = {};
  std::int64_t capacity_ = 0;
  std::int64_t target_recent_ = 0;
  std::int64_t size_ = 0;
  std::uint64_t next_release_ = 1;
};
static_assert(EvictionPolicy<Arc>);

KVPAGE_END_NAMESPACE
