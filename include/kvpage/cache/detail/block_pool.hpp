/// \file BlockPool: the state of every block (clean, cached, used, pending), its one reference count, and the exact inverse of each move.
#pragma once

#include <kvpage/cache/detail/undo_log.hpp>
#include <kvpage/cache/eviction_policy.hpp>

#include <array>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Steps whose pending blocks are kept apart, and one more for the open transaction.
inline constexpr std::size_t kNumLanes = 5;
inline constexpr std::uint8_t kNoLane = 0xFF;

/// Owner of records and lists.
template <EvictionPolicy Evict>
class BlockPool {
 public:
  void attach(Arena& arena, std::int64_t num_blocks, Evict policy) {
    records_ = arena.cut<BlockRecord>(num_blocks);
    policy_ = std::move(policy);
    policy_.attach(records_, num_blocks, arena);
    for (std::size_t b = records_.size(); b-- > 0;) clean_.push_front(records_, static_cast<std::uint32_t>(b));
  }

  [[nodiscard]] std::int64_t num_blocks() const noexcept { return static_cast<std::int64_t>(records_.size()); }
  [[nodiscard]] std::int64_t num_clean() const noexcept { return clean_.size(); }
  [[nodiscard]] std::int64_t num_cached() const noexcept { return num_cached_; }
  [[nodiscard]] std::int64_t num_used() const noexcept { return num_used_; }
  [[nodiscard]] std::int64_t num_pending() const noexcept { return num_blocks() - num_clean() - num_cached_ - num_used_; }
  [[nodiscard]] std::int64_t available() const noexcept { return num_clean() + num_cached_; }
  [[nodiscard]] const BlockRecord& record(std::uint32_t b) const noexcept { return records_[b]; }
  [[nodiscard]] BlockRecord& record(std::uint32_t b) noexcept { return records_[b]; }
  [[nodiscard]] std::span<const BlockRecord> records() const noexcept { return records_; }
  [[nodiscard]] const BlockList& clean() const noexcept { return clean_; }
  [[nodiscard]] const BlockList& lane(std::size_t lane) const noexcept { return lanes_[lane]; }
  [[nodiscard]] Evict& policy() noexcept { return policy_; }
  [[nodiscard]] const Evict& policy() const noexcept { return policy_; }

  /// A block with one reference: a clean one, else the cached block that `pick()` names, whose node is hidden. Requires: available() > 0.
  template <class Pick>
  std::uint32_t take(UndoLog& log, std::uint32_t stamp, Pick&& pick) {
    std::uint32_t b = clean_.head();
    if (b != kNoLink) {
      clean_.remove(records_, b);
      log.push({UndoKind::kTakeClean, b, records_[b].generation});
    } else {
      b = pick();
      log.push({UndoKind::kTakeVictim, b, policy_.take(b)});
      --num_cached_;
      records_[b].lane |= BlockRecord::kHidden;
    }
    use(b);
    records_[b].generation = ++last_generation_;
    records_[b].taken_stamp = stamp;
    return b;
  }

  /// One more reference, from whatever state the block is in. Returns how to undo it.
  UndoEntry acquire(std::uint32_t b) {
    BlockRecord& r = records_[b];
    if (r.ref > 0) {
      ++r.ref;
      return {UndoKind::kAddRef, b};
    }
    if (r.state == BlockState::kCached) {
      const std::uint64_t cookie = policy_.take(b);
      --num_cached_;
      use(b);
      return {UndoKind::kAcquireCached, b, cookie};
    }
    if (r.state == BlockState::kPending) {
      const std::uint8_t lane = lane_of(b);
      const std::uint64_t prev = lanes_[lane].remove(records_, b);
      use(b);
      return {UndoKind::kAcquirePending, b, prev | (std::uint64_t{lane} << 32)};
    }
    clean_.remove(records_, b);
    use(b);
    return {UndoKind::kTakeClean, b, records_[b].generation};
  }

  /// One reference less. At zero the block waits in `lane`, or is cached (if it is indexed; `info(b)` describes it), or is clean.
  /// Returns how to undo it.
  template <class Info>
  UndoEntry drop(std::uint32_t b, std::uint8_t lane, Info&& info) {
    BlockRecord& r = records_[b];
    KVPAGE_ASSERT(r.ref > 0, "a reference is dropped only while it is held");
    if (--r.ref > 0) return {UndoKind::kDropRef, b};
    --num_used_;
    if (lane == kNoLane) return settle(b, info);
    park(b, lane);
    return {UndoKind::kDropToPending, b};
  }

  /// The step of `lane` is over: its pending blocks become clean or cached, or wait in `next_lane` for an older step.
  template <class Info>
  void drain(std::uint8_t lane, std::uint8_t next_lane, Info&& info) {
    BlockList& list = lanes_[lane];
    while (!list.empty()) {
      const std::uint32_t b = list.head();
      list.remove(records_, b);
      if (next_lane != kNoLane) {
        park(b, next_lane);
      } else {
        settle(b, info);
      }
    }
  }

  /// A cached block lost its node: it is clean. Not undone.
  void uncache(std::uint32_t b) {
    policy_.take(b);
    --num_cached_;
    clear(b);
  }

  /// Exact inverse of the newest list move.
  void undo(const UndoEntry& e) {
    const std::uint32_t b = e.block();
    BlockRecord& r = records_[b];
    switch (e.kind()) {
      case UndoKind::kAddRef: --r.ref; return;
      case UndoKind::kDropRef: ++r.ref; return;
      case UndoKind::kTakeClean:
        r.generation = static_cast<std::uint32_t>(e.cookie());  // a BlockRef given back in this transaction is valid again
        unuse(b), clear(b);
        return;
      case UndoKind::kTakeVictim:
        r.lane &= static_cast<std::uint8_t>(~BlockRecord::kHidden);
        [[fallthrough]];
      case UndoKind::kAcquireCached:
        unuse(b);
        r.state = BlockState::kCached;
        ++num_cached_;
        policy_.untake(b, e.cookie());
        return;
      case UndoKind::kAcquirePending: unuse(b), unpark(b, e.cookie()); return;
      case UndoKind::kDropToClean: clean_.remove(records_, b), use(b); return;
      case UndoKind::kDropToCached: policy_.undo_cached(b, e.cookie()), --num_cached_, use(b); return;
      case UndoKind::kDropToPending: lanes_[lane_of(b)].remove(records_, b), use(b); return;
      case UndoKind::kLeaf: policy_.undo_leaf(b, e.cookie()); return;
      default: return;
    }
  }

 private:
  [[nodiscard]] std::uint8_t lane_of(std::uint32_t b) const noexcept {
    return records_[b].lane & static_cast<std::uint8_t>(~BlockRecord::kHidden);
  }
  void set_lane(std::uint32_t b, std::uint8_t lane) noexcept {
    records_[b].lane = static_cast<std::uint8_t>((records_[b].lane & BlockRecord::kHidden) | lane);
  }
  void use(std::uint32_t b) noexcept {
    records_[b].ref = 1;
    records_[b].state = BlockState::kUsed;
    set_lane(b, 0);
    ++num_used_;
  }
  void unuse(std::uint32_t b) noexcept {
    records_[b].ref = 0;
    --num_used_;
  }
  void clear(std::uint32_t b) noexcept {
    records_[b].state = BlockState::kClean;
    clean_.push_front(records_, b);
  }
  void park(std::uint32_t b, std::uint8_t lane) noexcept {
    records_[b].state = BlockState::kPending;
    set_lane(b, lane);
    lanes_[lane].push_back(records_, b);
  }
  void unpark(std::uint32_t b, std::uint64_t cookie) noexcept {
    const auto lane = static_cast<std::uint8_t>(cookie >> 32);
    records_[b].state = BlockState::kPending;
    set_lane(b, lane);
    lanes_[lane].insert_after(records_, static_cast<std::uint32_t>(cookie), b);
  }
  template <class Info>
  UndoEntry settle(std::uint32_t b, Info&& info) {
    set_lane(b, 0);
    if (records_[b].node == kNoLink || records_[b].hidden()) {
      clear(b);
      return {UndoKind::kDropToClean, b};
    }
    records_[b].state = BlockState::kCached;
    ++num_cached_;
    return {UndoKind::kDropToCached, b, policy_.on_cached(b, info(b))};
  }

  std::span<BlockRecord> records_;
  BlockList clean_;
  std::array<BlockList, kNumLanes> lanes_;
  Evict policy_;
  std::int64_t num_cached_ = 0;
  std::int64_t num_used_ = 0;
  std::uint32_t last_generation_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
