/// \file FairShare: the tenant that got least goes first.
#pragma once

#include <kvpage/sched/order_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Per tenant, work done = prompt tokens computed + 2 * tokens decoded; hits and recomputed tokens are free. The tenant with the least
/// goes first, inside a tenant by arrival; one that comes back is lifted to the least among those present. Cost: a plan looks at every
/// tenant that was ever seen, and each keeps its account, about 100 bytes: tenants are customers, not requests.
/// Source: virtual token counter, Sheng et al., "Fairness in Serving Large Language Models", 2024 (arXiv 2401.00588).
struct FairShare : OrderDefaults {
  [[nodiscard]] std::int64_t rank(const RequestView& request) const noexcept { return request.arrival_ns; }
  [[nodiscard]] std::uint64_t account(const RequestView& request) const noexcept { return request.tenant; }
  [[nodiscard]] std::int64_t charge(const RequestView&, const WorkDone& work) const noexcept {
    return work.prompt_tokens + 2 * work.new_tokens;
  }
};
static_assert(AccountingOrder<FairShare>);

KVPAGE_END_NAMESPACE
