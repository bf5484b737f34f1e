/// \file PriorityOrder: urgent requests first, and waiting makes urgent.
#pragma once

#include <kvpage/sched/order_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

/// By arrival + priority * age_ns: a request of priority p is served as if it had arrived p * age_ns later, so none waits for ever.
struct PriorityOrder : OrderDefaults {
  std::int64_t age_ns = 10'000'000'000;
  [[nodiscard]] std::int64_t rank(const Request& request) const noexcept { return request.arrival_ns + request.priority * age_ns; }
  [[nodiscard]] std::int64_t priority(const Request& request) const noexcept { return request.priority; }
};
static_assert(OrderPolicy<PriorityOrder>);

KVPAGE_END_NAMESPACE
