/// \file AnyOrder, AnyAdmission, AnyPreemption: the production policies behind one type, so that a seed can choose among them.
#pragma once

#include <kvpage/sched/admission_learned_growth.hpp>
#include <kvpage/sched/admission_reserve.hpp>
#include <kvpage/sched/order_deadline.hpp>
#include <kvpage/sched/order_fair_share.hpp>
#include <kvpage/sched/order_fcfs.hpp>
#include <kvpage/sched/order_longest_prefix.hpp>
#include <kvpage/sched/order_priority.hpp>
#include <kvpage/sched/order_shortest.hpp>
#include <kvpage/sched/order_static_batch.hpp>
#include <kvpage/sched/preemption_policy.hpp>

#include <concepts>
#include <functional>
#include <variant>

KVPAGE_BEGIN_NAMESPACE

/// Any order, a user's own too, chosen at run time.
class AnyOrder {
 public:
  static constexpr std::size_t kNumKinds = 7;

  AnyOrder() : AnyOrder(Fcfs{}) {}
  template <class O>
    requires(!std::same_as<O, AnyOrder> && OrderPolicy<O>)
  AnyOrder(const O& order)
      : kFairLanes(order.kFairLanes), kLongestHitFirst(order.kLongestHitFirst), kOnlyWhenEmpty(order.kOnlyWhenEmpty),
        rank_([order](const Request& request) { return order.rank(request); }),
        priority_([order](const Request& request) { return order.priority(request); }) {}

  /// The shipped ones, by number.
  [[nodiscard]] static AnyOrder of(std::size_t kind) {
    const AnyOrder all[kNumKinds] = {Fcfs{}, PriorityOrder{}, Shortest{}, LongestPrefix{}, FairShare{}, DeadlineOrder{}, StaticBatch{}};
    return all[kind % kNumKinds];
  }
  [[nodiscard]] std::int64_t rank(const Request& request) const { return rank_(request); }
  [[nodiscard]] std::int64_t priority(const Request& request) const { return priority_(request); }

  bool kFairLanes = false;
  bool kLongestHitFirst = false;
  bool kOnlyWhenEmpty = false;

 private:
  std::function<std::int64_t(const Request&)> rank_;
  std::function<std::int64_t(const Request&)> priority_;
};
static_assert(OrderPolicy<AnyOrder>);

/// One of the four admissions.
class AnyAdmission {
 public:
  using Kinds = std::variant<ReserveChunk, ReservePrompt, ReserveFull, LearnedGrowth>;
  static constexpr std::size_t kNumKinds = std::variant_size_v<Kinds>;

  AnyAdmission(const Kinds& admission = LearnedGrowth{}) : admission_(admission) {}
  [[nodiscard]] static AnyAdmission of(std::size_t kind) {
    const Kinds all[] = {ReserveChunk{}, ReservePrompt{}, ReserveFull{}, LearnedGrowth{}};
    return all[kind % kNumKinds];
  }
  [[nodiscard]] std::int64_t needed_blocks(const AdmissionView& view) const {
    return std::visit([&](const auto& a) { return a.needed_blocks(view); }, admission_);
  }
  void on_step() {
    std::visit([](auto& a) { a.on_step(); }, admission_);
  }
  void on_preemption(std::int64_t new_tokens, std::int64_t max_new_tokens, std::int64_t num_running) {
    std::visit([&](auto& a) { a.on_preemption(new_tokens, max_new_tokens, num_running); }, admission_);
  }

 private:
  Kinds admission_;
};
static_assert(AdmissionPolicy<AnyAdmission>);

/// Preemption by cost, or of the last.
struct AnyPreemption {
  bool by_cost = true;
  [[nodiscard]] bool worse(const PreemptionCandidate& a, const PreemptionCandidate& b) const noexcept {
    return by_cost ? PreemptByCost{}.worse(a, b) : PreemptLast{}.worse(a, b);
  }
};
static_assert(PreemptionPolicy<AnyPreemption>);

KVPAGE_END_NAMESPACE
