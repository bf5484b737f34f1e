/// \file BlockHeap: cached blocks by a 64-bit key, smallest first; blocks that are not leaves wait outside with their key.
#pragma once

#include <kvpage/cache/detail/arena.hpp>
#include <kvpage/cache/detail/block_records.hpp>
#include <kvpage/cache/detail/digest.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Keys of all blocks and a binary heap of some of them. Ties go to the smaller id, so the order is a function of the content alone.
/// Several heaps may share one KeyTable; a block is in at most one of them.
class KeyTable {
 public:
  void attach(Arena& arena, std::int64_t num_blocks) {
    keys_ = arena.cut<std::uint64_t>(num_blocks);
    positions_ = arena.cut<std::uint32_t>(num_blocks);
    for (std::uint32_t& p : positions_) p = kNoLink;
  }
  [[nodiscard]] std::uint64_t& key(std::uint32_t b) noexcept { return keys_[b]; }
  [[nodiscard]] std::uint64_t key(std::uint32_t b) const noexcept { return keys_[b]; }
  [[nodiscard]] std::uint32_t& position(std::uint32_t b) noexcept { return positions_[b]; }
  [[nodiscard]] std::uint32_t position(std::uint32_t b) const noexcept { return positions_[b]; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(keys_.size()); }
  [[nodiscard]] bool before(std::uint32_t a, std::uint32_t b) const noexcept {
    return keys_[a] != keys_[b] ? keys_[a] < keys_[b] : a < b;
  }

 private:
  std::span<std::uint64_t> keys_;
  std::span<std::uint32_t> positions_;
};

/// Cost: push and remove O(log n), top O(1).
class BlockHeap {
 public:
  void attach(Arena& arena, std::int64_t num_blocks) { heap_ = arena.cut_raw<std::uint32_t>(num_blocks); }

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t top() const noexcept { return size_ == 0 ? kNoLink : heap_[0]; }

  void push(KeyTable& table, std::uint32_t b) noexcept { sift_up(table, size_++, b); }

  void remove(KeyTable& table, std::uint32_t b) noexcept {
    const std::uint32_t hole = table.position(b);
    const std::uint32_t last = heap_[--size_];
    table.position(b) = kNoLink;
    if (last == b) return;
    if (hole > 0 && table.before(last, heap_[(hole - 1) / 2])) {
      sift_up(table, hole, last);
    } else {
      sift_down(table, hole, last);
    }
  }

  /// Folds the members in a way that does not depend on where the heap keeps them.
  [[nodiscard]] std::uint64_t digest(const KeyTable& table) const noexcept {
    std::uint64_t sum = size_;
    for (std::uint32_t i = 0; i < size_; ++i) sum += mix_bits(mix_bits(heap_[i]) ^ table.key(heap_[i]));
    return sum;
  }

  void check(const KeyTable& table) const {
    for (std::uint32_t i = 0; i < size_; ++i) {
      KVPAGE_ASSERT(table.position(heap_[i]) == i, "a heap and its positions agree");
      KVPAGE_ASSERT(i == 0 || !table.before(heap_[i], heap_[(i - 1) / 2]), "a parent in the heap is not behind its child");
    }
  }

 private:
  void place(KeyTable& table, std::uint32_t i, std::uint32_t b) noexcept {
    heap_[i] = b;
    table.position(b) = i;
  }
  void sift_up(KeyTable& table, std::uint32_t i, std::uint32_t b) noexcept {
    for (; i > 0 && table.before(b, heap_[(i - 1) / 2]); i = (i - 1) / 2) place(table, i, heap_[(i - 1) / 2]);
    place(table, i, b);
  }
  void sift_down(KeyTable& table, std::uint32_t i, std::uint32_t b) noexcept {
    while (true) {
      std::uint32_t child = 2 * i + 1;
      if (child >= size_) break;
      if (child + 1 < size_ && table.before(heap_[child + 1], heap_[child])) ++child;
      if (!table.before(heap_[child], b)) break;
      place(table, i, heap_[child]);
      i = child;
    }
    place(table, i, b);
  }

  std::span<std::uint32_t> heap_;
  std::uint32_t size_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
