/// \file Fcfs: first come, first served.
#pragma once

#include <kvpage/sched/order_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

/// By arrival; priorities are ignored.
struct Fcfs : OrderDefaults {
  [[nodiscard]] std::int64_t rank(const RequestView& request) const noexcept { return request.arrival_ns; }
};
static_assert(OrderPolicy<Fcfs>);

KVPAGE_END_NAMESPACE
