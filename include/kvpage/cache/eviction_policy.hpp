/// \file EvictionPolicy: what the allocator asks of a type that decides which cached block is reused first.
#pragma once

#include <kvpage/cache/detail/arena.hpp>
#include <kvpage/cache/detail/block_records.hpp>

#include <concepts>

KVPAGE_BEGIN_NAMESPACE

/// What is known about a block at the moment its last reference went away.
struct CachedBlockInfo {
  std::uint64_t content_key = 0;   ///< low half of the prefix key: equal content has equal keys
  std::int64_t expires_at_ns = 0;  ///< end of its retention; 0 = none
  std::int64_t recompute_ns = 0;   ///< estimated cost of computing it again; 0 = unknown
  std::uint32_t hits = 0;          ///< how often it was hit since it was published
  std::uint32_t depth = 0;         ///< blocks before it in its prefix
  std::uint8_t priority = 35;      ///< retention priority, 0 (first out) to 100
  bool leaf = true;                ///< no longer prefix depends on it; only leaves may be victims
};

/// Priority of blocks without a retention wish, also after the wish has expired.
inline constexpr std::uint8_t kDefaultRetentionPriority = 35;

/// Order of reuse among cached blocks. The allocator calls it; `b` is a block id below num_blocks.
///
/// - `attach(records, num_blocks, arena)`: once, before anything else; per-block state comes from the arena. While the arena only
///   measures, `records` is empty, so sizes come from `num_blocks`. The links of cached blocks belong to the policy.
/// - `on_published(b, info)`: b got its content and became findable; never undone.
/// - `on_cached(b, info)`: b lost its last reference. `take(b)`: b was hit or chosen as victim, and leaves the order.
///   `on_leaf(b)`: b was cached with info.leaf == false and is a leaf now. Each returns a cookie.
/// - `undo_cached(b, cookie)`, `untake(b, cookie)`, `undo_leaf(b, cookie)`: exact inverses, called in reverse order of what they undo.
/// - `victim()`: the next block to reuse, kNoLink if there is no cached leaf. Same state, same answer.
/// - `on_evicted(b)`: the reuse of a victim became final (its content is gone); never undone.
/// - `expire(now_ns)`: retention wishes up to now_ns end. `size()`: cached blocks it holds.
/// - `digest()`: a value that differs when the order of reuse differs. `check()`: asserts its own structure.
/// - `kNeedsLeaves`: false when tail-first release alone makes victims leaves; then info.leaf and on_leaf are not maintained.
///
/// Cost: every call O(1), or O(log num_blocks) where the policy says so; expire, digest and check may be linear.
template <class P>
concept EvictionPolicy = std::movable<P> && requires(P p, const P c, std::uint32_t b, std::uint64_t cookie, const CachedBlockInfo& info,
                                                     std::span<detail::BlockRecord> records, detail::Arena& arena) {
  { P::kNeedsLeaves } -> std::convertible_to<bool>;
  p.attach(records, std::int64_t{}, arena);
  p.on_published(b, info);
  { p.on_cached(b, info) } -> std::same_as<std::uint64_t>;
  { p.take(b) } -> std::same_as<std::uint64_t>;
  { p.on_leaf(b) } -> std::same_as<std::uint64_t>;
  p.undo_cached(b, cookie);
  p.untake(b, cookie);
  p.undo_leaf(b, cookie);
  p.on_evicted(b);
  p.expire(std::int64_t{});
  { c.victim() } -> std::same_as<std::uint32_t>;
  { c.size() } -> std::convertible_to<std::int64_t>;
  { c.digest() } -> std::same_as<std::uint64_t>;
  c.check();
};

KVPAGE_END_NAMESPACE
