/// \file UndoLog: 16-byte entries from which a transaction is taken back, in a ring sized at construction.
#pragma once

#include <kvpage/base/assert.hpp>
#include <kvpage/cache/detail/arena.hpp>

#include <bit>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// What an entry undoes. Entries of the first half move blocks between lists and are reversed exactly, in reverse order, while the
/// transaction is open. Entries of the second half change tables; they, and those of the first half that took or gave back a BlockRef,
/// are what is reversed when a sealed step is aborted.
enum class UndoKind : std::uint8_t {
  kTakeClean,       ///< block: clean -> used; cookie = former generation; group = BlockRefs that hold it
  kTakeVictim,      ///< block: cached -> used, its node hidden; cookie of the policy; group = BlockRefs that hold it
  kAcquireCached,   ///< block: cached -> used, still indexed; cookie of the policy
  kAcquirePending,  ///< block: pending -> used; cookie = predecessor in the lane
  kAddRef,          ///< block: ref + 1
  kDropRef,         ///< block: ref - 1, still used; group = 1: of a BlockRef, cookie = its generation
  kDropToClean,     ///< block: used -> clean; the same
  kDropToCached,    ///< block: used -> cached; cookie of the policy
  kDropToPending,   ///< block: used -> pending; the same as kDropRef
  kLeaf,            ///< block: became a candidate; cookie of the policy
  kHide,            ///< block: its node is hidden (taken over by its new owner)
  // ---- structural entries
  kCreate,     ///< row came to life; block = former generation, index = former origin
  kSettled,    ///< block = row: cookie = former settled_after, before the row was created anew
  kDelete,     ///< row ended
  kResize,     ///< block = row: cookie = former length in tokens, group = former content_lost
  kPop,        ///< row, group, index: entry removed; block = what it was
  kSet,        ///< row, group, index: entry replaced; block = what it was
  kFirstLive,  ///< row, group: index = former first live entry
  kDropFront,  ///< row, group, index: entry behind the window dropped; block = what it was
  kChain,      ///< row: former published chain; index = nodes, block = last node
  kExternal,   ///< block: external + 1 (a second BlockRef)
  kCopy,       ///< a copy was recorded, block = its source
  kWrite,      ///< block is written in place, cookie = from which of its tokens on; undone only by marking who lost content
  kHit,        ///< block = node: a sequence started from it and its ancestors; cookie = blocks
  kStart,      ///< row came to life under generation = block; written for readers of events only, undoes nothing
};

/// Two words, written whole: narrow stores that are read back as one would cost more than the entry itself.
class UndoEntry {
 public:
  UndoEntry() = default;
  UndoEntry(UndoKind kind, std::uint32_t block, std::uint64_t cookie = 0, std::uint8_t group = 0) noexcept
      : head_(static_cast<std::uint64_t>(kind) | (std::uint64_t{group} << 8) | (std::uint64_t{block} << 32)), cookie_(cookie) {}
  /// An entry of a row.
  static UndoEntry of_row(UndoKind kind, std::uint32_t row, std::int64_t group, std::uint32_t index, std::uint32_t block) noexcept {
    return {kind, block, row | (std::uint64_t{index} << 32), static_cast<std::uint8_t>(group)};
  }

  [[nodiscard]] UndoKind kind() const noexcept { return static_cast<UndoKind>(head_ & 0xFF); }
  [[nodiscard]] std::uint8_t group() const noexcept { return static_cast<std::uint8_t>(head_ >> 8); }
  [[nodiscard]] std::uint32_t block() const noexcept { return static_cast<std::uint32_t>(head_ >> 32); }
  [[nodiscard]] std::uint64_t cookie() const noexcept { return cookie_; }
  [[nodiscard]] std::uint32_t row() const noexcept { return static_cast<std::uint32_t>(cookie_); }
  [[nodiscard]] std::uint32_t index() const noexcept { return static_cast<std::uint32_t>(cookie_ >> 32); }

 private:
  std::uint64_t head_ = 0;
  std::uint64_t cookie_ = 0;
};
static_assert(sizeof(UndoEntry) == 16);

/// Entries of all unsettled transactions, oldest first, at absolute positions [begin, end).
class UndoLog {
 public:
  void attach(Arena& arena, std::int64_t max_entries) {
    const auto capacity = std::bit_ceil(static_cast<std::uint64_t>(max_entries));
    entries_ = arena.cut_raw<UndoEntry>(static_cast<std::int64_t>(capacity));
    mask_ = capacity - 1;
    limit_ = capacity;
  }

  [[nodiscard]] std::int64_t room() const noexcept { return static_cast<std::int64_t>(limit_ - end_); }
  [[nodiscard]] std::uint64_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] const UndoEntry& at(std::uint64_t position) const noexcept { return entries_[position & mask_]; }

  void push(const UndoEntry& entry) noexcept {
    KVPAGE_ASSERT(end_ < limit_, "operations reserve their undo entries before they change anything");
    entries_[end_ & mask_] = entry;
    ++end_;
  }
  UndoEntry pop() noexcept { return entries_[--end_ & mask_]; }
  /// Forgets the entries from `position` on: they are final, although older ones are not.
  void forget_from(std::uint64_t position) noexcept { end_ = position; }
  /// Forgets everything before `position`: those transactions are final.
  void settle(std::uint64_t position) noexcept {
    begin_ = position;
    limit_ = position + mask_ + 1;
  }
  /// Forgets everything: all transactions are final.
  void forget_all() noexcept { end_ = begin_; }
  /// The same, and starts again at the front, where the memory is warm.
  void clear() noexcept {
    end_ = 0;
    settle(0);
  }

 private:
  std::uint64_t begin_ = 0;
  std::span<UndoEntry> entries_;
  std::uint64_t mask_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t limit_ = 0;  ///< begin_ + capacity: end_ never passes it
};

}  // namespace detail
KVPAGE_END_NAMESPACE
