/// \file PlanBase: the plan in the making: its marks, its savepoints, and how it takes blocks from others.
#pragma once

#include <kvpage/sched/detail/preemption_cost.hpp>
#include <kvpage/sched/detail/transfers.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Nothing outside of the step record and the open transaction changes, except scratch marks that carry the plan's serial, so a plan
/// can be dropped at any time.
template <class Core>
class PlanBase {
 public:
  explicit PlanBase(Core& core) : core_(core), step_(core.step), txn_(*core.step.txn), budget_left_(core.config.budget_tokens) {
    rows_in_use_ = core.rows_in_use();
    for (const std::uint32_t slot : core.running) decodes_left_ += core.requests[slot].decoding() ? 1 : 0;
  }

 protected:
  /// The plan before something was tried.
  struct Mark {
    Savepoint savepoint;
    std::size_t num_rows, num_victims, num_loads, num_load_slots;
    std::int64_t budget_left, decodes_left, rows_in_use;
    std::int64_t window_released;
    bool leader_advanced, preempted_for_growth;
  };
  [[nodiscard]] Mark mark() const {
    return {txn_.mark(),          step_.unsorted.size(), step_.victims.size(), step_.loads.size(),
            step_.load_slots.size(), budget_left_,       decodes_left_,        rows_in_use_,
            step_.window_released, step_.leader_advanced, step_.preempted_for_growth};
  }
  void rollback_to(const Mark& mark) {
    txn_.rollback_to(mark.savepoint);
    if constexpr (Core::kTiered) release_loads(core_, mark.num_loads, mark.num_load_slots);
    for (std::size_t i = mark.num_rows; i < step_.unsorted.size(); ++i) request(step_.unsorted[i].slot).planned_in = 0;
    for (std::size_t i = mark.num_victims; i < step_.victims.size(); ++i) {
      Request& r = request(step_.victims[i].slot);
      (step_.victims[i].keeps_blocks() ? r.kept_in : r.victim_in) = 0;
    }
    step_.unsorted.resize(mark.num_rows);
    step_.victims.resize(mark.num_victims);
    budget_left_ = mark.budget_left, decodes_left_ = mark.decodes_left, rows_in_use_ = mark.rows_in_use;
    step_.window_released = mark.window_released;
    step_.leader_advanced = mark.leader_advanced;
    step_.preempted_for_growth = mark.preempted_for_growth;
  }

  [[nodiscard]] Request& request(std::uint32_t slot) const noexcept { return core_.requests[slot]; }
  [[nodiscard]] bool planned(const Request& r) const noexcept { return r.planned_in == step_.serial; }
  [[nodiscard]] bool lost_row(const Request& r) const noexcept { return r.victim_in == step_.serial || r.kept_in == step_.serial; }
  [[nodiscard]] bool lost_blocks(const Request& r) const noexcept { return r.victim_in == step_.serial; }
  /// The leader, or an answer of the leading beam.
  [[nodiscard]] bool leads(std::uint32_t slot) const noexcept {
    if (step_.leader == kNoRequestSlot) return false;
    return slot == step_.leader || (request(slot).beam && request(slot).family == request(step_.leader).family);
  }

  /// Calls fn for the sequences that live and die together: all answers of a forked beam, else the one.
  template <class Fn>
  void for_each_member(std::uint32_t slot, Fn&& fn) const {
    const Request& r = request(slot);
    if (r.beam && r.forked) {
      core_.requests.for_each_open(r.family, fn);
    } else {
      fn(slot);
    }
  }

  /// Takes the blocks of the sequence that loses least, among those behind the beneficiary. False when there is none. Admission keeps
  /// room for every turn; should the room be gone all the same, and no pin yield, the turn that leads goes before the others.
  bool preempt_one(std::uint32_t beneficiary) {
    return preempt_one(beneficiary, false) ||
           (leads(beneficiary) && core_.cache->capacity().pinned == 0 && preempt_one(beneficiary, true));
  }
  bool preempt_one(std::uint32_t beneficiary, bool from_turns) {
    std::uint32_t best = kNoRequestSlot;
    PreemptionCandidate best_cost{};
    const auto consider = [&](std::uint32_t slot, bool parked) {
      if (!eligible(slot, beneficiary, parked) || (core_.holds_turn(request(slot)) && !from_turns)) return;
      PreemptionCandidate cost = cost_of(slot);
      if (parked) cost.lost_ns = 0;  // blocks without a row go first
      if (best == kNoRequestSlot || core_.policies.preemption.worse(cost, best_cost)) best = slot, best_cost = cost;
    };
    for (const std::uint32_t slot : core_.parked) consider(slot, true);
    for (const Victim& v : step_.victims) {
      if (v.keeps_blocks()) consider(v.slot, true);
    }
    if (best == kNoRequestSlot) {
      for (const std::uint32_t slot : core_.running) consider(slot, false);
    }
    if (best == kNoRequestSlot) return false;
    take_blocks(best);
    return true;
  }

  /// Takes row and blocks, or the row alone.
  void take_blocks(std::uint32_t slot) {
    for_each_member(slot, [&](std::uint32_t member) {
      Request& r = request(member);
      if (!r.has_seq) return;
      const bool had_row = r.state == RequestState::kRunning && !lost_row(r);
      const PreemptionKind kind = preemption_cost(core_, r).kind;
      const auto done = txn_.release(r.seq);
      if (!done) return;  // the undo log is full: it keeps its blocks, and the beneficiary waits a step
      if (had_row) give_up_row(r);
      r.victim_in = step_.serial;
      step_.victims.push_back({.slot = member, .seq = r.seq, .kind = kind});
      step_.preempted_for_growth = true;
    });
  }
  void take_row(std::uint32_t slot) {
    Request& r = request(slot);
    give_up_row(r);
    r.kept_in = step_.serial;
    step_.victims.push_back({.slot = slot, .seq = r.seq, .kind = PreemptionKind::kKeep});
  }

 private:
  void give_up_row(const Request& r) {
    rows_in_use_ -= Core::row_weight(r);
    if (r.decoding() && r.visited_in != step_.serial) --decodes_left_;
  }

  [[nodiscard]] bool eligible(std::uint32_t slot, std::uint32_t beneficiary, bool parked) const {
    const Request& v = request(slot);
    const Request& b = request(beneficiary);
    if (slot == beneficiary || leads(slot) || planned(v) || lost_blocks(v) || !v.has_seq) return false;
    if (v.beam && v.forked && (v.family == b.family || any_member_planned(slot))) return false;
    if (!parked && v.kept_in == step_.serial) return false;
    if (leads(beneficiary) || core_.holds_turn(b) || core_.running.empty()) return true;
    if (!parked && core_.shielded(v)) return false;
    return core_.position(slot) > core_.position(beneficiary);
  }
  [[nodiscard]] bool any_member_planned(std::uint32_t slot) const {
    bool any = false;
    for_each_member(slot, [&](std::uint32_t member) { any = any || planned(request(member)); });
    return any;
  }

  /// Summed over the members of a beam.
  [[nodiscard]] PreemptionCandidate cost_of(std::uint32_t slot) const {
    const Request& first = request(slot);
    PreemptionCandidate cost{.base_priority = first.base_priority, .key = first.key, .new_tokens = first.num_new_tokens()};
    for_each_member(slot, [&](std::uint32_t member) {
      if (!request(member).has_seq) return;
      const PreemptionCost one = preemption_cost(core_, request(member));
      cost.freed_blocks += one.freed_blocks, cost.lost_ns += one.lost_ns;
    });
    return cost;
  }

 protected:
  Core& core_;
  decltype(Core::step)& step_;
  typename Core::Transaction& txn_;
  std::int64_t budget_left_ = 0;
  std::int64_t decodes_left_ = 0;  // rows kept free for decoding sequences that are not planned yet
  std::int64_t rows_in_use_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
