/// \file PriorityOrder: urgent requests first, and waiting makes urgent.
#pragma once

#include <kvpage/sched/order_policy.hpp>

#include <limits>

KVPAGE_BEGIN_NAMESPACE

/// By arrival + priority * age_ns: a request of priority p is served as if it had arrived p * age_ns later, so none waits for ever.
/// With kNeverAges strictly by priority, inside one by submission. Requires: age_ns >= 0.
struct PriorityOrder : OrderDefaults {
  static constexpr std::int64_t kNeverAges = std::numeric_limits<std::int64_t>::max();
  std::int64_t age_ns = 10'000'000'000;
  [[nodiscard]] std::int64_t rank(const RequestView& request) const noexcept {
    if (age_ns == kNeverAges) return request.priority;
    constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();  // whoever would come behind the end of the clock
    if (age_ns > 0 && request.priority > (kLast - request.arrival_ns) / age_ns) return kLast;
    return request.arrival_ns + request.priority * age_ns;
  }
  [[nodiscard]] std::int64_t priority(const RequestView& request) const noexcept { return request.priority; }
};
static_assert(OrderPolicy<PriorityOrder>);

KVPAGE_END_NAMESPACE
