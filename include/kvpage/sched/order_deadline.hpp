/// \file DeadlineOrder: earliest deadline first.
#pragma once

#include <kvpage/sched/order_policy.hpp>

#include <limits>

KVPAGE_BEGIN_NAMESPACE

/// By finish_by_ns, then start_by_ns; requests without a deadline come last, by submission.
struct DeadlineOrder : OrderDefaults {
  [[nodiscard]] std::int64_t rank(const RequestView& request) const noexcept {
    if (request.finish_by_ns != 0) return request.finish_by_ns;
    return request.start_by_ns != 0 ? request.start_by_ns : std::numeric_limits<std::int64_t>::max();
  }
};
static_assert(OrderPolicy<DeadlineOrder>);

KVPAGE_END_NAMESPACE
