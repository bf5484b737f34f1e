/// \file OrderPolicy: who goes first, as a type.
#pragma once

#include <kvpage/sched/request_record.hpp>

#include <concepts>

KVPAGE_BEGIN_NAMESPACE

/// What an order is if it says nothing else. A user's policy derives from it and writes `rank`.
struct OrderDefaults {
  static constexpr bool kFairLanes = false;        ///< one lane per tenant; the one with the least work done goes first
  static constexpr bool kLongestHitFirst = false;  ///< among the first candidates, the one with the most cached tokens
  static constexpr bool kOnlyWhenEmpty = false;    ///< a batch is formed when nobody runs, and ends before the next one
  /// Preemption compares this, smaller = more urgent; equals never preempt each other for a row.
  [[nodiscard]] std::int64_t priority(const Request&) const noexcept { return 0; }
};

/// An order of requests. `rank` and `priority` are asked once, at submission, and must depend on the request alone: the key is
/// static and total (ties by submission): the smallest one of those that run leads, unless a guarded turn is open.
template <class O>
concept OrderPolicy = std::copy_constructible<O> && requires(const O order, const Request& request) {
  { order.rank(request) } -> std::convertible_to<std::int64_t>;
  { order.priority(request) } -> std::convertible_to<std::int64_t>;
  { order.kFairLanes } -> std::convertible_to<bool>;
  { order.kLongestHitFirst } -> std::convertible_to<bool>;
  { order.kOnlyWhenEmpty } -> std::convertible_to<bool>;
};

KVPAGE_END_NAMESPACE
