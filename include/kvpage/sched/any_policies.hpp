/// \file AnyOrder, AnyAdmission, AnyPreemption: the policies behind one type each, to be chosen by name or number when the program runs.
#pragma once

#include <kvpage/sched/admission_learned_growth.hpp>
#include <kvpage/sched/admission_reserve.hpp>
#include <kvpage/sched/detail/order_hooks.hpp>
#include <kvpage/sched/order_deadline.hpp>
#include <kvpage/sched/order_fair_share.hpp>
#include <kvpage/sched/order_fcfs.hpp>
#include <kvpage/sched/order_longest_prefix.hpp>
#include <kvpage/sched/order_priority.hpp>
#include <kvpage/sched/order_shortest.hpp>
#include <kvpage/sched/order_static_batch.hpp>
#include <kvpage/sched/scheduler_policies.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

KVPAGE_BEGIN_NAMESPACE

/// Any order, a user's own too, chosen at run time. What an order does not decide is decided as if nobody had a say.
class AnyOrder {
 public:
  static constexpr std::size_t kNumKinds = 7;

  AnyOrder() : AnyOrder(Fcfs{}) {}
  template <class O>
    requires(!std::same_as<O, AnyOrder> && OrderPolicy<O>)
  AnyOrder(const O& order) : order_(std::make_unique<Holder<O>>(order)) {}
  AnyOrder(const AnyOrder& other) : order_(other.order_->copy()) {}
  AnyOrder& operator=(const AnyOrder& other) {
    order_ = other.order_->copy();
    return *this;
  }

  /// The shipped ones, by number, see named_orders.
  [[nodiscard]] static AnyOrder of(std::size_t kind);
  [[nodiscard]] std::int64_t rank(const RequestView& request) const { return order_->rank(request); }
  [[nodiscard]] std::int64_t priority(const RequestView& request) const { return order_->priority(request); }
  [[nodiscard]] std::uint64_t account(const RequestView& request) const { return order_->account(request); }
  [[nodiscard]] std::int64_t charge(const RequestView& request, const WorkDone& work) const { return order_->charge(request, work); }
  [[nodiscard]] std::int64_t look_ahead() const { return order_->look_ahead(); }
  [[nodiscard]] std::int64_t rank_by_hit(const RequestView& request, std::int64_t cached_tokens) const {
    return order_->rank_by_hit(request, cached_tokens);
  }
  [[nodiscard]] bool waits_for(const SharedPrompt& shared) const { return order_->waits_for(shared); }
  [[nodiscard]] bool may_join(const FormedBatch& batch) const { return order_->may_join(batch); }

 private:
  struct Decisions {
    virtual ~Decisions() = default;
    [[nodiscard]] virtual std::unique_ptr<Decisions> copy() const = 0;
    [[nodiscard]] virtual std::int64_t rank(const RequestView& request) const = 0;
    [[nodiscard]] virtual std::int64_t priority(const RequestView& request) const = 0;
    [[nodiscard]] virtual std::uint64_t account(const RequestView& request) const = 0;
    [[nodiscard]] virtual std::int64_t charge(const RequestView& request, const WorkDone& work) const = 0;
    [[nodiscard]] virtual std::int64_t look_ahead() const = 0;
    [[nodiscard]] virtual std::int64_t rank_by_hit(const RequestView& request, std::int64_t cached_tokens) const = 0;
    [[nodiscard]] virtual bool waits_for(const SharedPrompt& shared) const = 0;
    [[nodiscard]] virtual bool may_join(const FormedBatch& batch) const = 0;
  };
  template <class O>
  struct Holder final : Decisions {
    explicit Holder(const O& held) : order(held) {}
    [[nodiscard]] std::unique_ptr<Decisions> copy() const override { return std::make_unique<Holder>(order); }
    [[nodiscard]] std::int64_t rank(const RequestView& request) const override { return order.rank(request); }
    [[nodiscard]] std::int64_t priority(const RequestView& request) const override { return order.priority(request); }
    [[nodiscard]] std::uint64_t account(const RequestView& request) const override { return detail::account_of(order, request); }
    [[nodiscard]] std::int64_t charge(const RequestView& request, const WorkDone& work) const override {
      return detail::charge_of(order, request, work);
    }
    [[nodiscard]] std::int64_t look_ahead() const override { return detail::look_ahead(order); }
    [[nodiscard]] std::int64_t rank_by_hit(const RequestView& request, std::int64_t cached_tokens) const override {
      return detail::rank_by_hit(order, request, cached_tokens);
    }
    [[nodiscard]] bool waits_for(const SharedPrompt& shared) const override { return detail::waits_for(order, shared); }
    [[nodiscard]] bool may_join(const FormedBatch& batch) const override { return detail::may_join(order, batch); }
    O order;
  };

  std::unique_ptr<Decisions> order_;
};
static_assert(AccountingOrder<AnyOrder> && CacheAwareOrder<AnyOrder> && BatchingOrder<AnyOrder>);

/// One of the four admissions.
class AnyAdmission {
 public:
  using Kinds = std::variant<ReserveChunk, ReservePrompt, ReserveFull, LearnedGrowth>;
  static constexpr std::size_t kNumKinds = std::variant_size_v<Kinds>;

  AnyAdmission(const Kinds& admission = LearnedGrowth{}) : admission_(admission) {}
  /// The shipped ones, by number: those that reserve, then the one that learns.
  [[nodiscard]] static AnyAdmission of(std::size_t kind);
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

/// A name and the policy that it stands for: what command lines and configuration files choose from.
template <class Policy>
struct NamedPolicy {
  std::string_view name;
  Policy policy;
};

/// Orders, the default first.
[[nodiscard]] inline std::array<NamedPolicy<AnyOrder>, AnyOrder::kNumKinds> named_orders() {
  return {{{"fcfs", Fcfs{}}, {"priority", PriorityOrder{}}, {"shortest", Shortest{}}, {"longest-prefix", LongestPrefix{}},
           {"fair-share", FairShare{}}, {"deadline", DeadlineOrder{}}, {"static", StaticBatch{}}}};
}
/// Admissions, the default first.
[[nodiscard]] inline std::array<NamedPolicy<AnyAdmission>, AnyAdmission::kNumKinds> named_admissions() {
  return {{{"learned-growth", {LearnedGrowth{}}}, {"reserve-chunk", {ReserveChunk{}}}, {"reserve-prompt", {ReservePrompt{}}},
           {"reserve-full", {ReserveFull{}}}}};
}
/// Preemptions, the default first.
[[nodiscard]] inline std::array<NamedPolicy<AnyPreemption>, 2> named_preemptions() { return {{{"cost", {true}}, {"last", {false}}}}; }

/// Policies that are chosen when the program runs. A program with policies of its own names its types instead: SchedulerPolicies<Mine>.
using NamedPolicies = SchedulerPolicies<AnyOrder, AnyAdmission, AnyPreemption>;

template <class Policy, std::size_t N>
[[nodiscard]] std::vector<std::string> names_of(const std::array<NamedPolicy<Policy>, N>& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.emplace_back(one.name);
  return names;
}
/// The policy of that name; empty for an unknown name.
template <class Policy, std::size_t N>
[[nodiscard]] std::optional<Policy> policy_by_name(const std::array<NamedPolicy<Policy>, N>& all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  if (found == all.end()) return std::nullopt;
  return found->policy;
}

inline AnyOrder AnyOrder::of(std::size_t kind) { return named_orders()[kind % kNumKinds].policy; }
inline AnyAdmission AnyAdmission::of(std::size_t kind) { return named_admissions()[(kind + 1) % kNumKinds].policy; }

KVPAGE_END_NAMESPACE
