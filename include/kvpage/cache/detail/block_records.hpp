/// \file BlockRecord: all that is known about one block, half a cache line, and BlockList, the intrusive list that all lists of blocks are.
#pragma once

#include <kvpage/base/assert.hpp>
#include <kvpage/base/types.hpp>

#include <span>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

inline constexpr std::uint32_t kNoLink = 0xFFFF'FFFFu;

/// Pending blocks also say for which step they wait: kPending + lane.
enum class BlockState : std::uint8_t { kClean, kCached, kUsed, kPending };

[[nodiscard]] constexpr BlockState pending_in(std::uint8_t lane) noexcept {
  return static_cast<BlockState>(static_cast<std::uint8_t>(BlockState::kPending) + lane);
}
[[nodiscard]] constexpr std::uint8_t lane_of(BlockState pending) noexcept {
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(pending) - static_cast<std::uint8_t>(BlockState::kPending));
}

/// Links, counts and state of one block. The links belong to the list of its state; a used block is in none.
struct BlockRecord {
  std::uint32_t prev = kNoLink;
  std::uint32_t next = kNoLink;
  std::uint32_t ref = 0;
  BlockState state = BlockState::kClean;
  bool hidden = false;           ///< the open transaction took the node away from this block
  std::uint16_t copy_holds = 0;  ///< references that belong to copies of steps in flight (part of ref)
  std::uint32_t generation = 0;  ///< new each time the block is taken; none is given twice
  std::uint32_t taken_stamp = 0; ///< low bits of the transaction that took it last
  std::uint32_t external = 0;    ///< references held through BlockRef (part of ref)
  std::uint32_t node = kNoLink;  ///< index node that the block is attached to
};
static_assert(sizeof(BlockRecord) == 32);

/// A doubly linked list through the records. The `prev` of the head means nothing. Every operation is O(1).
class BlockList {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t head() const noexcept { return head_; }
  [[nodiscard]] std::uint32_t tail() const noexcept { return tail_; }

  void push_front(std::span<BlockRecord> records, std::uint32_t b) noexcept {
    records[b].next = head_;
    (head_ == kNoLink ? tail_ : records[head_].prev) = b;
    head_ = b;
    ++size_;
  }
  void push_back(std::span<BlockRecord> records, std::uint32_t b) noexcept { insert_after(records, tail_, b); }

  /// Puts `b` behind `prev`; kNoLink = to the front.
  void insert_after(std::span<BlockRecord> records, std::uint32_t prev, std::uint32_t b) noexcept {
    if (prev == kNoLink) return push_front(records, b);
    const std::uint32_t next = records[prev].next;
    records[b].prev = prev;
    records[b].next = next;
    records[prev].next = b;
    (next == kNoLink ? tail_ : records[next].prev) = b;
    ++size_;
  }

  /// Takes the head out. Requires: not empty.
  std::uint32_t pop_front(std::span<BlockRecord> records) noexcept {
    const std::uint32_t b = head_;
    head_ = records[b].next;
    if (head_ == kNoLink) tail_ = kNoLink;
    --size_;
    return b;
  }

  /// Takes `b` out and returns its former predecessor, which insert_after takes to undo this.
  std::uint32_t remove(std::span<BlockRecord> records, std::uint32_t b) noexcept {
    const std::uint32_t prev = b == head_ ? kNoLink : records[b].prev;
    const std::uint32_t next = records[b].next;
    (prev == kNoLink ? head_ : records[prev].next) = next;
    (next == kNoLink ? tail_ : records[next].prev) = prev;
    --size_;
    return prev;
  }

  /// Calls fn(b) from head to tail and asserts that links are mutual and the length is the counter.
  template <class Fn>
  void for_each_checked(std::span<const BlockRecord> records, Fn&& fn) const {
    std::uint32_t prev = kNoLink;
    std::uint32_t count = 0;
    for (std::uint32_t b = head_; b != kNoLink && count <= size_; b = records[b].next) {
      KVPAGE_ASSERT(b == head_ || records[b].prev == prev, "links of a block list are mutual");
      fn(b);
      prev = b;
      ++count;
    }
    KVPAGE_ASSERT(count == size_ && tail_ == prev, "a block list is as long as its counter says and ends at its tail");
  }

 private:
  std::uint32_t head_ = kNoLink;
  std::uint32_t tail_ = kNoLink;
  std::uint32_t size_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
