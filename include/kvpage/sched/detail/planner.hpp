/// \file Planner: makes one plan: the leader, urgent requests, those that run, those that wait.
#pragma once

#include <kvpage/sched/detail/admission_planner.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <class Core>
class Planner : public AdmissionPlanner<Core> {
 public:
  using Base = AdmissionPlanner<Core>;
  using Base::Base;

  void run() {
    const bool empty = core_.running.empty();
    step_.leader = find_leader();
    find_overdue();
    if (!empty && !new_leader_takes_over()) this->plan_running(step_.leader);
    const bool closed = core_.policies.order.kOnlyWhenEmpty && !empty && core_.batch.closed;
    if (!closed) admit_urgent();
    plan_others();
    if (closed) return;
    this->running_known_ = false;
    if (!step_.preempted_for_growth) admit_waiting();
  }

 private:
  using Base::core_, Base::step_, Base::txn_, Base::request, Base::planned;

  /// Among those whose turn it is, the one that had waited since the earliest moment; else the smallest rank among those that run.
  /// Nobody takes its blocks, and it is planned first.
  [[nodiscard]] std::uint32_t find_leader() const {
    std::uint32_t leader = kNoRequestSlot;
    for (const std::uint32_t slot : core_.running) {
      if (leader == kNoRequestSlot || leads_before(request(slot), request(leader))) leader = slot;
    }
    return leader;
  }
  [[nodiscard]] bool leads_before(const Request& a, const Request& b) const {
    const bool turn = core_.holds_turn(a);
    if (turn != core_.holds_turn(b)) return turn;
    const auto since = [this](const Request& r) { return core_.waiter(r).waiting_since_ns; };
    if (turn && since(a) != since(b)) return since(a) < since(b);
    return a.key != b.key ? a.key < b.key : a.child < b.child;
  }

  /// Whoever has waited longest, if that is too long.
  void find_overdue() {
    overdue_ = core_.waiting.oldest();
    if (overdue_ != kNoRequestSlot && !core_.overdue(request(overdue_))) overdue_ = kNoRequestSlot;
  }
  /// Who takes rows from others overtakes whoever is overdue, and that is bounded: in the end nobody takes a row before that one has one.
  [[nodiscard]] bool waits_for_overdue(std::uint32_t slot) const {
    return overdue_ != kNoRequestSlot && overdue_ != slot && !planned(request(overdue_)) && may_not_be_bypassed(request(overdue_));
  }

  void plan_others() {
    for (const std::uint32_t slot : core_.running) this->plan_running(slot);
  }

  /// The first in the queue, if it is before the leader and more urgent, leads from now on, provided that it gets in. Turns end first.
  bool new_leader_takes_over() {
    core_.waiting.begin_walk();
    const std::uint32_t head = core_.waiting.walk();
    if (core_.policies.order.kOnlyWhenEmpty || head == kNoRequestSlot) return false;
    const std::uint32_t leader = step_.leader;
    if (core_.holds_turn(request(leader)) || waits_for_overdue(head)) return false;
    if (request(head).base_priority >= request(leader).base_priority || request(head).key > request(leader).key) return false;
    step_.leader = head;
    if (admit_by_force(head)) return true;
    step_.leader = leader;
    return false;
  }

  /// Takes rows and blocks from less urgent sequences for the first in the queue, as long as that gets it in.
  void admit_urgent() {
    core_.waiting.begin_walk();
    for (std::uint32_t slot = core_.waiting.walk(); slot != kNoRequestSlot; slot = core_.waiting.walk()) {
      if (planned(request(slot))) continue;
      if (waits_for_overdue(slot) || least_urgent_behind(slot) == kNoRequestSlot || !admit_by_force(slot)) return;
    }
  }

  bool admit_by_force(std::uint32_t slot) {
    const auto before = this->mark();
    this->running_known_ = false;
    AdmissionOutcome outcome = this->try_admit(slot);
    while (outcome == AdmissionOutcome::kNoRow || outcome == AdmissionOutcome::kNoBlocks) {
      const std::uint32_t victim = least_urgent_behind(slot);
      if (victim == kNoRequestSlot) break;
      if (outcome == AdmissionOutcome::kNoRow && can_park(victim)) {
        this->take_row(victim);
      } else {
        this->take_blocks(victim);
      }
      if (!this->lost_row(request(victim))) break;
      this->running_known_ = false;
      outcome = this->try_admit(slot);
    }
    if (outcome != AdmissionOutcome::kAdmitted) {
      this->rollback_to(before);
      return false;
    }
    if (overdue_ != kNoRequestSlot && !planned(request(overdue_))) count_bypass(overdue_);
    return true;
  }

  /// Whoever runs with a base priority less urgent than that of `slot`, the last of them. Equals never give way, nor does anybody whose
  /// turn it is, and whoever has given way often gives way to the leader alone.
  [[nodiscard]] std::uint32_t least_urgent_behind(std::uint32_t slot) const {
    for (std::size_t i = core_.running.size(); i-- > 0;) {
      const std::uint32_t candidate = core_.running[i];
      const Request& r = request(candidate);
      if (r.base_priority <= request(slot).base_priority) return kNoRequestSlot;
      const bool guarded = core_.holds_turn(r) || (!this->leads(slot) && core_.shielded(r));
      if (!this->leads(candidate) && !planned(r) && !this->lost_row(r) && !guarded) return candidate;
    }
    return kNoRequestSlot;
  }

  /// Only sequences that stand alone are parked, and only while ids are left for all that run.
  [[nodiscard]] bool can_park(std::uint32_t slot) const {
    const auto parked = static_cast<std::int64_t>(core_.parked.size() + step_.victims.size());
    return !request(slot).beam && core_.cache->config().max_seqs > core_.config.max_seqs + parked;
  }

  void admit_waiting() {
    core_.blocked.clear();
    if (this->rows_in_use_ >= core_.config.max_seqs) return;
    collect_candidates();
    for (std::uint32_t slot = next_candidate(); slot != kNoRequestSlot; slot = next_candidate()) {
      Request& r = request(slot);
      if (planned(r) || (by_hit() && waits_for_publish(slot))) continue;
      if (step_.leader == kNoRequestSlot) step_.leader = slot;  // nobody runs: it may take the blocks of all that are parked
      AdmissionOutcome outcome = this->try_admit(slot);
      while (outcome == AdmissionOutcome::kNoBlocks && this->leads(slot) && this->preempt_one(slot)) outcome = this->try_admit(slot);
      if (outcome == AdmissionOutcome::kNoBlocks && this->leads(slot)) {
        this->partial_hits_ = false;
        outcome = this->try_admit(slot);
        this->partial_hits_ = true;
      }
      if (outcome == AdmissionOutcome::kNoRow || outcome == AdmissionOutcome::kNoBudget) return;
      if (outcome == AdmissionOutcome::kNoBlocks) {
        if (core_.overdue(r) || this->leads(slot) || may_not_be_bypassed(r)) return;
        core_.blocked.push_back(slot);
        if (static_cast<std::int64_t>(core_.blocked.size()) >= core_.config.max_examined) return;
        continue;
      }
      for (const std::uint32_t passed : core_.blocked) count_bypass(passed);
      if (std::any_of(core_.blocked.begin(), core_.blocked.end(), [&](std::uint32_t s) { return may_not_be_bypassed(request(s)); })) return;
    }
  }

  void count_bypass(std::uint32_t slot) {
    Request& r = request(slot);
    if (std::exchange(r.bypassed_in, step_.serial) != step_.serial) r.bypassed_now = 0, step_.bypassed.push_back(slot);
    ++r.bypassed_now;
  }
  [[nodiscard]] bool may_not_be_bypassed(const Request& r) const {
    return r.bypassed + (r.bypassed_in == step_.serial ? r.bypassed_now : 0) >= core_.config.max_bypasses;
  }

  /// Candidates in order: the longest waiting one if it is overdue, then the walk of the queue, or the longest hits of its start.
  void collect_candidates() {
    core_.waiting.begin_walk();
    first_ = overdue_;
    if (by_hit()) sort_by_hit();
  }
  std::uint32_t next_candidate() {
    if (first_ != kNoRequestSlot) return std::exchange(first_, kNoRequestSlot);
    if (!by_hit()) return core_.waiting.walk();
    return next_ranked_ == core_.ranked.size() ? kNoRequestSlot : core_.ranked[next_ranked_++].second;
  }
  [[nodiscard]] bool by_hit() const noexcept { return Core::kIndexed && core_.policies.order.kLongestHitFirst; }

  static constexpr std::int64_t kWorthWaiting = 32;
  static constexpr std::int64_t kMaxHeldSteps = 8;

  /// True when a prompt that is being computed will soon be a longer hit than what is cached now.
  bool waits_for_publish(std::uint32_t slot) {
    Request& r = request(slot);
    if (r.held_steps >= kMaxHeldSteps || core_.running.empty()) return false;
    std::int64_t cached = 0;
    for (const auto& [hit, ranked] : core_.ranked) cached = ranked == slot ? -hit : cached;
    for (const std::uint32_t other : core_.running) {
      const Request& prompt = request(other);
      if (prompt.num_computed >= prompt.prompt_tokens || prompt.name_space != r.name_space) continue;
      const auto end = r.tokens.begin() + std::min(r.num_tokens(), prompt.num_tokens());
      const std::int64_t shared = std::mismatch(r.tokens.begin(), end, prompt.tokens.begin()).first - r.tokens.begin();
      if (shared - cached < kWorthWaiting) continue;
      step_.held.push_back(slot);
      r.held_in = step_.serial;
      return true;
    }
    return false;
  }

  static constexpr std::size_t kMaxRanked = 128;
  void sort_by_hit() {
    core_.ranked.clear(), next_ranked_ = 0;
    while (core_.ranked.size() < kMaxRanked) {
      const std::uint32_t slot = core_.waiting.walk();
      if (slot == kNoRequestSlot) break;
      const Request& r = request(slot);
      std::int64_t hit = 0;
      if constexpr (Core::kIndexed) hit = core_.cache->match({.name_space = r.name_space, .tokens = r.tokens}).num_tokens;
      core_.ranked.emplace_back(-hit, slot);
    }
    using Ranked = std::pair<std::int64_t, std::uint32_t>;
    std::sort(core_.ranked.begin(), core_.ranked.end(), [this](const Ranked& a, const Ranked& b) {
      return a.first != b.first ? a.first < b.first : request(a.second).key < request(b.second).key;
    });
  }

  std::size_t next_ranked_ = 0;
  std::uint32_t first_ = kNoRequestSlot;
  std::uint32_t overdue_ = kNoRequestSlot;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
