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
  [[nodiscard]] std::int64_t num_used() const noexcept { return num_blocks() - available() - num_pending(); }
  [[nodiscard]] std::int64_t num_pending() const noexcept {
    std::int64_t sum = 0;
    for (const BlockList& list : lanes_) sum += list.size();
    return sum;
  }
  [[nodiscard]] std::int64_t available() const noexcept { return num_clean() + num_cached_; }
  [[nodiscard]] const BlockRecord& record(std::uint32_t b) const noexcept { return records_[b]; }
  [[nodiscard]] BlockRecord& record(std::uint32_t b) noexcept { return records_[b]; }
  [[nodiscard]] std::span<const BlockRecord> records() const noexcept { return records_; }
  [[nodiscard]] const BlockList& clean() const noexcept { return clean_; }
  [[nodiscard]] const BlockList& lane(std::size_t lane) const noexcept { return lanes_[lane]; }
  [[nodiscard]] Evict& policy() noexcept { return policy_; }
  [[nodiscard]] const Evict& policy() const noexcept { return policy_; }

  /// A clean block with one reference, `external` (0 or 1) of them a BlockRef. Requires: num_clean() > 0.
  [[gnu::always_inline]] std::uint32_t take_clean(UndoLog& log, std::uint32_t stamp, std::uint8_t external) {
    const std::uint32_t b = clean_.pop_front(records_);
    log.push({UndoKind::kTakeClean, b, records_[b].generation, external});
    hand_out(b, stamp, external);
    return b;
  }

  /// The same with cached block b, whose node is hidden.
  void take_victim(std::uint32_t b, UndoLog& log, std::uint32_t stamp, std::uint8_t external) {
    log.push({UndoKind::kTakeVictim, b, policy_.take(b), external});
    --num_cached_;
    records_[b].hidden = true;
    hand_out(b, stamp, external);
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
    if (r.state >= BlockState::kPending) {
      const std::uint8_t lane = lane_of(r.state);
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
  [[gnu::always_inline]] UndoEntry drop(std::uint32_t b, std::uint8_t lane, Info&& info) {
    BlockRecord& r = records_[b];
    KVPAGE_ASSERT(r.ref > 0, "a reference is dropped only while it is held");
    if (r.ref > 1) {
      --r.ref;
      return {UndoKind::kDropRef, b};
    }
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
      case UndoKind::kDropRef:
        ++r.ref;
        r.external += e.group();
        return;
      case UndoKind::kTakeClean:
        r.generation = static_cast<std::uint32_t>(e.cookie());  // a BlockRef given back in this transaction is valid again
        r.external = 0;
        clear(b);
        return;
      case UndoKind::kTakeVictim:
        r.hidden = false;
        r.external = 0;
        [[fallthrough]];
      case UndoKind::kAcquireCached:
        r.ref = 0;
        r.state = BlockState::kCached;
        ++num_cached_;
        policy_.untake(b, e.cookie());
        return;
      case UndoKind::kAcquirePending: unpark(b, e.cookie()); return;
      case UndoKind::kDropToClean:
        clean_.remove(records_, b);
        use(b);
        r.external += e.group();
        return;
      case UndoKind::kDropToCached: policy_.undo_cached(b, e.cookie()), --num_cached_, use(b); return;
      case UndoKind::kDropToPending:
        lanes_[lane_of(r.state)].remove(records_, b);
        use(b);
        r.external += e.group();
        return;
      case UndoKind::kLeaf: policy_.undo_leaf(b, e.cookie()); return;
      default: return;
    }
  }

 private:
  void hand_out(std::uint32_t b, std::uint32_t stamp, std::uint8_t external) noexcept {
    use(b);
    records_[b].generation = ++last_generation_;
    records_[b].taken_stamp = stamp;
    records_[b].external = external;
  }
  void use(std::uint32_t b) noexcept {
    records_[b].ref = 1;
    records_[b].state = BlockState::kUsed;
  }
  void clear(std::uint32_t b) noexcept {
    records_[b].ref = 0;
    records_[b].state = BlockState::kClean;
    clean_.push_front(records_, b);
  }
  void park(std::uint32_t b, std::uint8_t lane) noexcept {
    records_[b].ref = 0;
    records_[b].state = pending_in(lane);
    lanes_[lane].push_back(records_, b);
  }
  void unpark(std::uint32_t b, std::uint64_t cookie) noexcept {
    const auto lane = static_cast<std::uint8_t>(cookie >> 32);
    records_[b].ref = 0;
    records_[b].state = pending_in(lane);
    lanes_[lane].insert_after(records_, static_cast<std::uint32_t>(cookie), b);
  }
  template <class Info>
  [[gnu::always_inline]] UndoEntry settle(std::uint32_t b, Info&& info) {
    if (records_[b].node == kNoLink || records_[b].hidden) {
      clear(b);
      return {UndoKind::kDropToClean, b};
    }
    records_[b].ref = 0;
    records_[b].state = BlockState::kCached;
    ++num_cached_;
    return {UndoKind::kDropToCached, b, policy_.on_cached(b, info(b))};
  }

  std::span<BlockRecord> records_;
  BlockList clean_;
  std::array<BlockList, kNumLanes> lanes_;
  Evict policy_;
  std::int64_t num_cached_ = 0;
  std::uint32_t last_generation_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
