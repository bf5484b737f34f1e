/// \file Scheduling policies by name: what command lines and configuration files choose from when the program runs.
#pragma once

#include <kvpage/sched/continuous_scheduler.hpp>
#include <kvpage/sched/any_policies.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// Policies that are chosen at run time. An engine with policies of its own names its types instead: SchedulerPolicies<Mine, ...>.
using NamedPolicies = SchedulerPolicies<AnyOrder, AnyAdmission, AnyPreemption>;

/// A name and the policy that it stands for.
template <class Policy>
struct NamedPolicy {
  std::string_view name;
  Policy policy;
};

/// Orders, the default first.
inline std::vector<NamedPolicy<AnyOrder>> named_orders() {
  return {{"fcfs", AnyOrder(Fcfs{})},           {"priority", AnyOrder(PriorityOrder{})},     {"shortest", AnyOrder(Shortest{})},
          {"longest-prefix", AnyOrder(LongestPrefix{})}, {"fair-share", AnyOrder(FairShare{})}, {"deadline", AnyOrder(DeadlineOrder{})},
          {"static", AnyOrder(StaticBatch{})}};
}
/// Admissions, the default first.
inline std::vector<NamedPolicy<AnyAdmission>> named_admissions() {
  return {{"learned-growth", AnyAdmission(LearnedGrowth{})}, {"reserve-chunk", AnyAdmission(ReserveChunk{})},
          {"reserve-prompt", AnyAdmission(ReservePrompt{})}, {"reserve-full", AnyAdmission(ReserveFull{})}};
}
/// Preemptions, the default first.
inline std::vector<NamedPolicy<AnyPreemption>> named_preemptions() {
  return {{"cost", AnyPreemption{true}}, {"last", AnyPreemption{false}}};
}

template <class Policy>
std::vector<std::string> names_of(const std::vector<NamedPolicy<Policy>>& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.emplace_back(one.name);
  return names;
}

/// The policy of that name; empty for an unknown name.
template <class Policy>
std::optional<Policy> policy_by_name(const std::vector<NamedPolicy<Policy>>& all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  if (found == all.end()) return std::nullopt;
  return found->policy;
}

}  // namespace kvpage::engine
