/// \file RequestTable: the records of all requests in flight, by slot and by id, and what each tenant has in flight.
#pragma once

#include <kvpage/sched/detail/slot_heap.hpp>

#include <deque>
#include <memory_resource>
#include <unordered_map>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Slots are stable while a request lives. `acquire` and `name` are the only calls that take memory.
class RequestTable {
 public:
  explicit RequestTable(std::pmr::memory_resource* memory) : memory_(memory), slots_(memory), free_(memory), by_id_(memory) {}

  [[nodiscard]] Request& operator[](std::uint32_t slot) noexcept { return slots_[slot]; }
  [[nodiscard]] const Request& operator[](std::uint32_t slot) const noexcept { return slots_[slot]; }
  [[nodiscard]] std::size_t num_slots() const noexcept { return slots_.size(); }
  [[nodiscard]] std::int64_t num_requests() const noexcept { return static_cast<std::int64_t>(by_id_.size()); }

  /// Slot of child 0, or kNoRequestSlot.
  [[nodiscard]] std::uint32_t find(RequestId id) const {
    const auto at = by_id_.find(id.value);
    return at == by_id_.end() ? kNoRequestSlot : at->second;
  }

  std::uint32_t acquire() {
    if (free_.empty()) {
      reserve_more(free_, slots_.size() + 1);
      slots_.emplace_back(memory_);
      return static_cast<std::uint32_t>(slots_.size() - 1);
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void name(RequestId id, std::uint32_t slot) { by_id_.emplace(id.value, slot); }

  /// Frees the records of a whole family. Requires: all its answers have ended.
  void release_family(std::uint32_t family) {
    by_id_.erase(slots_[family].id.value);
    for (std::uint32_t slot = family; slot != kNoRequestSlot;) {
      const std::uint32_t next = slots_[slot].next_sibling;
      slots_[slot] = Request{memory_};
      free_.push_back(slot);
      slot = next;
    }
  }

  /// Calls fn(slot) for every answer of a family that has not ended. With the last one, fn may end the family.
  template <class Fn>
  void for_each_open(std::uint32_t family, Fn&& fn) const {
    std::uint32_t left = slots_[family].open_children;
    for (std::uint32_t slot = family; left > 0;) {
      const std::uint32_t next = slots_[slot].next_sibling;
      if (!slots_[slot].ended) --left, fn(slot);
      slot = next;
    }
  }

 private:
  std::pmr::memory_resource* memory_;
  std::pmr::deque<Request> slots_;
  std::pmr::vector<std::uint32_t> free_;
  std::pmr::unordered_map<std::uint64_t, std::uint32_t> by_id_;
};

/// Requests in flight, and the lane of the last one. Entries stay: a tenant keeps its account.
struct Tenant {
  std::int64_t num_requests = 0;
  std::uint32_t lane = 0;
};
using TenantTable = std::pmr::unordered_map<std::uint32_t, Tenant>;
/// The lane of each account of the order; lane 0 is that of requests of no account.
using AccountTable = std::pmr::unordered_map<std::uint64_t, std::uint32_t>;

}  // namespace detail
KVPAGE_END_NAMESPACE
