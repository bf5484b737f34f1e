/// \file NaiveTier: what an OffloadTier must do, said with maps and small numbers for contents and pages.
#pragma once

#include "cache_tier/flaky_store.hpp"

#include <kvpage/cache/tier_refusal.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace kvpage_test {

using Kind = kvpage::TierRefusalKind;
using Outcome = std::optional<Kind>;  ///< nothing = it happened

/// Contents and page versions are numbers; kNothing = none, or damaged.
struct NaiveTier {
  static constexpr int kNothing = -1;
  struct Slot {
    int content = kNothing;  ///< kNothing: lost while held
    bool stored = false;
    int holds = 0;
    int page = kNothing;  ///< the version that was demoted
  };
  struct OnDisk {
    int content = kNothing;      ///< what the header says
    int header_page = kNothing;  ///< of which page the header has the checksum
    int page = kNothing;
  };

  std::uint32_t num_slots = 0;
  bool persistent = false;
  std::map<std::uint32_t, Slot> slots;  ///< those not free
  std::vector<std::uint32_t> order;     ///< stored ones, least recently used first
  std::map<std::uint32_t, OnDisk> disk;

  std::uint32_t find(int content) const {
    for (const auto& [s, slot] : slots) {
      if (slot.content == content) return s;
    }
    return num_slots;
  }
  bool is(std::uint32_t s, bool stored) const {
    return slots.count(s) == 1 && slots.at(s).content != kNothing && slots.at(s).stored == stored;
  }
  bool held(std::uint32_t s) const { return slots.count(s) == 1 && slots.at(s).holds > 0; }
  void use(std::uint32_t s) {
    order.erase(std::find(order.begin(), order.end(), s));
    order.push_back(s);
  }

  /// The slots that a reservation may take: any free one, or the one that must be replaced.
  std::vector<std::uint32_t> candidates() const {
    std::vector<std::uint32_t> out;
    for (std::uint32_t s = 0; s < num_slots; ++s) {
      if (slots.count(s) == 0) out.push_back(s);
    }
    for (std::size_t i = 0; i < order.size() && out.empty(); ++i) {
      if (slots.at(order[i]).holds == 0) out.push_back(order[i]);
    }
    return out;
  }
  void reserve(std::uint32_t s, int content) {
    if (slots.count(s) == 1) order.erase(std::find(order.begin(), order.end(), s));
    slots[s] = {.content = content, .stored = false, .holds = 0, .page = kNothing};
  }

  /// `faults` = what the store will do with the page, the header and the zeros that end a header.
  Outcome demote(std::uint32_t s, int page, std::vector<StoreFault> faults) {
    if (!is(s, false)) return Kind::kNotReserved;
    const int content = slots[s].content;
    if (!wrote(faults, [&](bool whole) { disk[s].page = whole ? page : kNothing; }) ||
        (persistent && !wrote(faults, [&](bool whole) {
          disk[s].content = whole ? content : kNothing;
          disk[s].header_page = page;
        }))) {
      forget(s, faults);
      return Kind::kStoreFailed;
    }
    slots[s].stored = true;
    slots[s].page = page;
    order.push_back(s);
    return {};
  }
  Outcome cancel(std::uint32_t s, std::vector<StoreFault> faults) {
    if (!is(s, false)) return Kind::kNotReserved;
    forget(s, faults);
    return {};
  }
  Outcome hold(std::uint32_t s) {
    if (!is(s, true)) return Kind::kNotHeld;
    use(s);
    ++slots[s].holds;
    return {};
  }
  Outcome promote(std::uint32_t s, std::vector<StoreFault> faults) {
    if (!held(s)) return Kind::kNotHeld;
    Outcome outcome;
    if (slots[s].content == kNothing) {
      outcome = Kind::kCorrupt;
    } else {
      if (!wrote(faults, [](bool) {})) outcome = Kind::kStoreFailed;
      if (!outcome && disk[s].page != slots[s].page) outcome = Kind::kCorrupt;
      if (outcome) forget(s, faults);
    }
    end_hold(s);
    return outcome;
  }
  Outcome release(std::uint32_t s) {
    if (!held(s)) return Kind::kNotHeld;
    end_hold(s);
    return {};
  }
  Outcome drop(std::uint32_t s, std::vector<StoreFault> faults) {
    if (held(s) || is(s, false)) return Kind::kInFlight;
    if (!is(s, true)) return Kind::kNotHeld;
    return forget(s, faults) ? Outcome{} : Kind::kStoreFailed;
  }

  /// A new start over the same disk: each readable header, in the order of slots, the first one of equal contents.
  void restart() {
    slots.clear(), order.clear();
    for (std::uint32_t s = 0; s < num_slots; ++s) {
      if (disk[s].content == kNothing || find(disk[s].content) != num_slots) continue;
      slots[s] = {.content = disk[s].content, .stored = true, .holds = 0, .page = disk[s].header_page};
      order.push_back(s);
    }
  }

 private:
  template <class Fn>
  static bool wrote(std::vector<StoreFault>& faults, Fn&& fn) {
    StoreFault fault = StoreFault::kNone;
    if (!faults.empty()) fault = faults.front(), faults.erase(faults.begin());
    if (fault != StoreFault::kNothing) fn(fault == StoreFault::kNone);
    return fault == StoreFault::kNone;
  }
  bool forget(std::uint32_t s, std::vector<StoreFault>& faults) {
    if (slots[s].stored) order.erase(std::find(order.begin(), order.end(), s));
    slots[s].content = kNothing;
    if (slots[s].holds == 0) slots.erase(s);
    return !persistent || wrote(faults, [&](bool) { disk[s].content = kNothing; });
  }
  void end_hold(std::uint32_t s) {
    if (--slots[s].holds == 0 && slots[s].content == kNothing) slots.erase(s);
  }
};

}  // namespace kvpage_test
