/// \file WaitingQueue: requests without a row, by lane and rank, and by how long they have waited.
#pragma once

#include <kvpage/sched/detail/slot_heap.hpp>

#include <vector>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Requests that wait. Lanes are the accounts of an order that keeps some, else there is one. A cursor walks the candidates in
/// order without changing the queue, so that a plan can be dropped. Cost: push, remove O(log n); a
/// walk starts in O(lanes), and each of its steps is O(lanes that wait + steps).
class WaitingQueue {
 public:
  struct Lane {
    SlotHeap heap;
    std::int64_t charge = 0;  ///< work done for it
    std::size_t num_answers = 0;  ///< in flight
  };

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::vector<Lane>& lanes() noexcept { return lanes_; }
  [[nodiscard]] const std::vector<Lane>& lanes() const noexcept { return lanes_; }

  /// Room for `num_slots` request slots, `in_lane` of them in `lane`; called where memory may be taken.
  void reserve(std::size_t num_slots, std::uint32_t lane, std::size_t in_lane) {
    if (next_.size() < num_slots) {  // the last of them: one that found no memory is tried again
      positions_.resize(num_slots), previous_.resize(num_slots, kNoRequestSlot), next_.resize(num_slots, kNoRequestSlot);
    }
    if (lanes_.size() <= lane) lanes_.resize(lane + 1);
    lanes_[lane].heap.reserve(in_lane);
    reserve_more(frontier_, num_slots + lanes_.size());
  }

  void push(std::uint32_t slot, const RankKey& key, std::uint32_t lane) {
    lanes_[lane].heap.push({key, slot}, positions_);
    previous_[slot] = newest_;
    next_[slot] = kNoRequestSlot;
    (newest_ == kNoRequestSlot ? oldest_ : next_[newest_]) = slot;
    newest_ = slot;
    ++size_;
  }

  void remove(std::uint32_t slot, std::uint32_t lane) {
    lanes_[lane].heap.remove(slot, positions_);
    (previous_[slot] == kNoRequestSlot ? oldest_ : next_[previous_[slot]]) = next_[slot];
    (next_[slot] == kNoRequestSlot ? newest_ : previous_[next_[slot]]) = previous_[slot];
    --size_;
  }

  /// Another key for a slot that waits; what it has waited stays.
  void rekey(std::uint32_t slot, const RankKey& key, std::uint32_t lane) {
    lanes_[lane].heap.remove(slot, positions_);
    lanes_[lane].heap.push({key, slot}, positions_);
  }

  /// Whoever came (back) first; kNoRequestSlot when nobody waits. `after` walks on from there.
  [[nodiscard]] std::uint32_t oldest() const noexcept { return oldest_; }
  [[nodiscard]] std::uint32_t after(std::uint32_t slot) const noexcept { return next_[slot]; }

  /// Starts a walk at the first candidate of every lane. Any push or remove ends it.
  void begin_walk() {
    frontier_.clear();
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      if (!lanes_[lane].heap.empty()) frontier_.push_back({lanes_[lane].heap[0], lane, 0});
    }
  }

  /// The next candidate: of the lane with the smallest charge, the smallest key. kNoRequestSlot at the end.
  std::uint32_t walk() {
    if (frontier_.empty()) return kNoRequestSlot;
    std::size_t best = 0;
    for (std::size_t i = 1; i < frontier_.size(); ++i) {
      if (before(frontier_[i], frontier_[best])) best = i;
    }
    const Candidate found = frontier_[best];
    frontier_[best] = frontier_.back();
    frontier_.pop_back();
    const SlotHeap& heap = lanes_[found.lane].heap;
    for (std::size_t child = 2 * found.at + 1; child <= 2 * found.at + 2 && child < heap.size(); ++child) {
      frontier_.push_back({heap[child], found.lane, child});
    }
    return found.entry.slot;
  }

 private:
  struct Candidate {
    SlotHeap::Entry entry;
    std::uint32_t lane = 0;
    std::size_t at = 0;
  };

  [[nodiscard]] bool before(const Candidate& a, const Candidate& b) const noexcept {
    if (lanes_[a.lane].charge != lanes_[b.lane].charge) return lanes_[a.lane].charge < lanes_[b.lane].charge;
    return a.entry.key < b.entry.key;
  }

  std::vector<Lane> lanes_ = std::vector<Lane>(1);
  std::vector<std::uint32_t> positions_;  // [num_slots], in the heap of the slot's lane
  std::vector<std::uint32_t> previous_;   // [num_slots], list by age
  std::vector<std::uint32_t> next_;       // [num_slots]
  std::vector<Candidate> frontier_;
  std::uint32_t oldest_ = kNoRequestSlot;
  std::uint32_t newest_ = kNoRequestSlot;
  std::int64_t size_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
