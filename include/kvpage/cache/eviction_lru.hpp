/// \file Lru: reuse the block that has been unreferenced for the longest time.
#pragma once

#include <kvpage/cache/detail/digest.hpp>
#include <kvpage/cache/eviction_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Least recently used. The queue runs through the records; its head is the next victim. As the allocator releases the tail of a
/// sequence first, a prefix outlives its extensions. Cost: O(1) per call.
class Lru {
 public:
  static constexpr bool kNeedsLeaves = false;

  void attach(std::span<detail::BlockRecord> records, std::int64_t, detail::Arena&) noexcept { records_ = records; }

  void on_published(std::uint32_t, const CachedBlockInfo&) noexcept {}
  std::uint64_t on_cached(std::uint32_t b, const CachedBlockInfo&) noexcept {
    queue_.push_back(records_, b);
    return 0;
  }
  void undo_cached(std::uint32_t b, std::uint64_t) noexcept { queue_.remove(records_, b); }
  std::uint64_t take(std::uint32_t b) noexcept { return queue_.remove(records_, b); }
  void untake(std::uint32_t b, std::uint64_t prev) noexcept { queue_.insert_after(records_, static_cast<std::uint32_t>(prev), b); }
  std::uint64_t on_leaf(std::uint32_t) noexcept { return 0; }
  void undo_leaf(std::uint32_t, std::uint64_t) noexcept {}
  void on_evicted(std::uint32_t) noexcept {}
  void expire(std::int64_t) noexcept {}

  [[nodiscard]] std::uint32_t victim() const noexcept { return queue_.head(); }
  [[nodiscard]] std::int64_t size() const noexcept { return queue_.size(); }
  [[nodiscard]] std::uint64_t digest() const {
    detail::Digest digest;
    queue_.for_each_checked(records_, [&](std::uint32_t b) { digest.fold(b); });
    return digest.value;
  }
  void check() const {
    queue_.for_each_checked(records_, [](std::uint32_t) {});
  }

 private:
  std::span<detail::BlockRecord> records_;
  detail::BlockList queue_;
};
static_assert(EvictionPolicy<Lru>);

KVPAGE_END_NAMESPACE
