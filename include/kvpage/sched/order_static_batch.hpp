/// \file StaticBatch: a new batch starts when the old one has ended.
#pragma once

#include <kvpage/sched/order_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

/// By arrival. Whoever waits when nobody runs forms a batch of at most max_seqs; it ends before the next one starts. What continuous
/// batching is measured against.
struct StaticBatch : OrderDefaults {
  [[nodiscard]] std::int64_t rank(const RequestView& request) const noexcept { return request.arrival_ns; }
  [[nodiscard]] bool may_join(const FormedBatch& batch) const noexcept { return !batch.closed; }
};
static_assert(BatchingOrder<StaticBatch>);

KVPAGE_END_NAMESPACE
