/// \file LongestPrefix: requests whose prompt is cached go first.
#pragma once

#include <kvpage/sched/order_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Among the first 128 by arrival, the one with the most cached tokens, so that a prefix is used while it is there. One that shares 32
/// tokens or more with a prompt in the making waits up to 8 steps for them. Source: idea and numbers of SGLang,
/// managers/schedule_policy.py.
struct LongestPrefix : OrderDefaults {
  static constexpr bool kLongestHitFirst = true;
  [[nodiscard]] std::int64_t rank(const Request& request) const noexcept { return request.arrival_ns; }
};
static_assert(OrderPolicy<LongestPrefix>);

KVPAGE_END_NAMESPACE
