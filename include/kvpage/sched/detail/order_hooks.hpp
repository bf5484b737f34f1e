/// \file What an order decides, asked in one place: an order without a function answers as if it had none to say.
#pragma once

#include <kvpage/sched/order_policy.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <OrderPolicy O>
[[nodiscard]] std::uint64_t account_of(const O& order, const RequestView& request) {
  if constexpr (AccountingOrder<O>) return order.account(request);
  return kNoAccount;
}
template <OrderPolicy O>
[[nodiscard]] std::int64_t charge_of(const O& order, const RequestView& request, const WorkDone& work) {
  if constexpr (AccountingOrder<O>) return std::max<std::int64_t>(0, order.charge(request, work));
  return 0;
}
template <OrderPolicy O>
[[nodiscard]] std::int64_t look_ahead(const O& order) {
  if constexpr (CacheAwareOrder<O>) return std::max<std::int64_t>(0, order.look_ahead());
  return 0;
}
template <OrderPolicy O>
[[nodiscard]] std::int64_t rank_by_hit(const O& order, const RequestView& request, std::int64_t cached_tokens) {
  if constexpr (CacheAwareOrder<O>) return order.rank_by_hit(request, cached_tokens);
  return 0;
}
template <OrderPolicy O>
[[nodiscard]] bool waits_for(const O& order, const SharedPrompt& shared) {
  if constexpr (CacheAwareOrder<O>) return order.waits_for(shared);
  return false;
}
template <OrderPolicy O>
[[nodiscard]] bool may_join(const O& order, const FormedBatch& batch) {
  if constexpr (BatchingOrder<O>) return order.may_join(batch);
  return true;
}

}  // namespace detail
KVPAGE_END_NAMESPACE
