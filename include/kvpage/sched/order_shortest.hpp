/// \file Shortest: least work first.
#pragma once

#include <kvpage/sched/order_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

/// By prompt tokens + new tokens asked for. Long requests are kept from starving by starve_after_ns alone.
struct Shortest : OrderDefaults {
  [[nodiscard]] std::int64_t rank(const RequestView& request) const noexcept { return request.prompt_tokens + request.max_new_tokens; }
};
static_assert(OrderPolicy<Shortest>);

KVPAGE_END_NAMESPACE
