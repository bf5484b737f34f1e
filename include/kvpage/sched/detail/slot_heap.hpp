/// \file SlotHeap: a binary heap of request slots that knows where each slot stands, so that any can leave in O(log n).
#pragma once

#include <kvpage/sched/request_record.hpp>

#include <utility>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Room for `count` entries; grows by doubling, so that many small calls stay cheap.
template <class Vector>
void reserve_more(Vector& vector, std::size_t count) {
  if (vector.capacity() < count) vector.reserve(2 * count);
}

/// Smallest key first. A slot is in at most one heap of those that share a `positions` vector ([num_slots]).
class SlotHeap {
 public:
  struct Entry {
    RankKey key{};
    std::uint32_t slot = kNoRequestSlot;
  };

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] const Entry& operator[](std::size_t i) const noexcept { return entries_[i]; }
  void reserve(std::size_t count) { reserve_more(entries_, count); }

  void push(const Entry& entry, std::vector<std::uint32_t>& positions) {
    entries_.push_back(entry);
    rise(entries_.size() - 1, positions);
  }

  /// Requires: the slot is in this heap.
  void remove(std::uint32_t slot, std::vector<std::uint32_t>& positions) {
    const std::size_t at = positions[slot];
    KVPAGE_ASSERT(at < entries_.size() && entries_[at].slot == slot, "the slot stands in this heap");
    const Entry last = entries_.back();
    entries_.pop_back();
    if (at == entries_.size()) return;
    entries_[at] = last;
    positions[last.slot] = static_cast<std::uint32_t>(at);
    rise(at, positions);
    sink(positions[last.slot], positions);
  }

 private:
  void place(std::size_t at, const Entry& entry, std::vector<std::uint32_t>& positions) noexcept {
    entries_[at] = entry;
    positions[entry.slot] = static_cast<std::uint32_t>(at);
  }

  void rise(std::size_t at, std::vector<std::uint32_t>& positions) noexcept {
    const Entry entry = entries_[at];
    for (; at > 0 && entry.key < entries_[(at - 1) / 2].key; at = (at - 1) / 2) place(at, entries_[(at - 1) / 2], positions);
    place(at, entry, positions);
  }

  void sink(std::size_t at, std::vector<std::uint32_t>& positions) noexcept {
    const Entry entry = entries_[at];
    for (std::size_t child = 2 * at + 1; child < entries_.size(); child = 2 * at + 1) {
      if (child + 1 < entries_.size() && entries_[child + 1].key < entries_[child].key) ++child;
      if (entry.key < entries_[child].key) break;
      place(at, entries_[child], positions);
      at = child;
    }
    place(at, entry, positions);
  }

  std::vector<Entry> entries_;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
