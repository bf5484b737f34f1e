/// \file LeafQueue: the half of a policy that keeps cached blocks in one order of 64-bit keys and offers only leaves.
#pragma once

#include <kvpage/cache/detail/block_heap.hpp>
#include <kvpage/cache/eviction_policy.hpp>

#include <utility>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Everything of an EvictionPolicy except which key a block gets. Cost: O(log num_blocks) per call.
class LeafQueue {
 public:
  static constexpr bool kNeedsLeaves = true;

  void on_published(std::uint32_t, const CachedBlockInfo&) noexcept {}
  void undo_cached(std::uint32_t b, std::uint64_t before) noexcept {
    take(b);
    keys_.key(b) = before;
  }
  std::uint64_t take(std::uint32_t b) noexcept {
    const bool was_leaf = keys_.position(b) != kNoLink;
    if (was_leaf) heap_.remove(keys_, b);
    --size_;
    return was_leaf ? 1 : 0;
  }
  void untake(std::uint32_t b, std::uint64_t was_leaf) noexcept {
    ++size_;
    if (was_leaf != 0) heap_.push(keys_, b);
  }
  std::uint64_t on_leaf(std::uint32_t b) noexcept {
    if (keys_.position(b) != kNoLink) return 0;
    heap_.push(keys_, b);
    return 1;
  }
  void undo_leaf(std::uint32_t b, std::uint64_t pushed) noexcept {
    if (pushed != 0) heap_.remove(keys_, b);
  }

  [[nodiscard]] std::uint32_t victim() const noexcept { return heap_.top(); }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t digest() const noexcept { return heap_.digest(keys_) ^ mix_bits(static_cast<std::uint64_t>(size_)); }
  void check() const { heap_.check(keys_); }

 protected:
  void attach_queue(std::int64_t num_blocks, Arena& arena) {
    keys_.attach(arena, num_blocks);
    heap_.attach(arena, num_blocks);
  }
  /// Enters b under `key`; the cookie is its former key.
  std::uint64_t enter(std::uint32_t b, std::uint64_t key, bool leaf) noexcept {
    const std::uint64_t before = std::exchange(keys_.key(b), key);
    ++size_;
    if (leaf) heap_.push(keys_, b);
    return before;
  }
  /// Changes the key of a block, whether it waits in the heap or outside.
  void rekey(std::uint32_t b, std::uint64_t key) noexcept {
    const bool queued = keys_.position(b) != kNoLink;
    if (queued) heap_.remove(keys_, b);
    keys_.key(b) = key;
    if (queued) heap_.push(keys_, b);
  }
  [[nodiscard]] std::uint64_t key(std::uint32_t b) const noexcept { return keys_.key(b); }
  [[nodiscard]] std::uint32_t num_blocks() const noexcept { return keys_.size(); }

 private:
  KeyTable keys_;
  BlockHeap heap_;
  std::int64_t size_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
