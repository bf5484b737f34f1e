/// \file SchedulerPolicies: the three decisions that a user may replace, side by side.
#pragma once

#include <kvpage/sched/admission_learned_growth.hpp>
#include <kvpage/sched/order_fcfs.hpp>
#include <kvpage/sched/preemption_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

template <OrderPolicy OrderType = Fcfs, AdmissionPolicy AdmissionType = LearnedGrowth, PreemptionPolicy PreemptionType = PreemptByCost>
struct SchedulerPolicies {
  OrderType order{};
  AdmissionType admission{};
  PreemptionType preemption{};
};

/// SchedulerPolicies, or a struct of a user's own with the same members.
template <class P>
concept SchedulerPolicySet = std::copy_constructible<P> && OrderPolicy<decltype(P::order)> && AdmissionPolicy<decltype(P::admission)> &&
                             PreemptionPolicy<decltype(P::preemption)>;

KVPAGE_END_NAMESPACE
