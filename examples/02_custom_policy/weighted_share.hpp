/// \file WeightedShare: a fair order of one's own, in which some tenants have paid for more.
#pragma once

#include <kvpage/sched/order_policy.hpp>

namespace own {

/// Tenants get work in proportion to their weights: while two of them always have requests waiting, one of weight 3 gets three times what
/// one of weight 1 gets. A tenant's account is charged the time that its work takes, divided by its weight; who was charged least goes
/// first. The scheduler keeps the accounts; an AccountingOrder says only whose account it is and what is charged.
struct WeightedShare : kvpage::OrderDefaults {
  std::int64_t first_weight = 3;  ///< of tenant 0; all others have 1
  std::int64_t prefill_us_per_token = 100;
  std::int64_t decode_us_per_token = 10'000;

  [[nodiscard]] std::int64_t rank(const kvpage::RequestView& request) const noexcept { return request.arrival_ns; }
  [[nodiscard]] std::uint64_t account(const kvpage::RequestView& request) const noexcept { return request.tenant; }
  [[nodiscard]] std::int64_t charge(const kvpage::RequestView& request, const kvpage::WorkDone& work) const noexcept {
    const std::int64_t time_us = work.prompt_tokens * prefill_us_per_token + work.new_tokens * decode_us_per_token;
    return time_us / (request.tenant == 0 ? first_weight : 1);
  }
};
static_assert(kvpage::AccountingOrder<WeightedShare>);

}  // namespace own
