/// \file OrderPolicy: who goes first, as a type.
#pragma once

#include <kvpage/sched/request_record.hpp>

#include <concepts>
#include <limits>

KVPAGE_BEGIN_NAMESPACE

/// What an order is if it says nothing else. A user's policy derives from it and writes `rank`.
struct OrderDefaults {
  /// Preemption compares this, smaller = more urgent; equals never preempt each other for a row.
  [[nodiscard]] std::int64_t priority(const RequestView&) const noexcept { return 0; }
};

/// An order of requests. `rank` and `priority` are asked once, at submission and when a request gets another priority: the key is static
/// and total (ties by submission): the smallest one of those that run leads, unless a guarded turn is open.
///
/// An order may also decide what the request alone does not say: it writes the functions of one or more of the concepts below. Whatever
/// it answers, the scheduler keeps its laws: whoever is overdue goes first, nobody waits for ever, and every request ends.
template <class O>
concept OrderPolicy = std::copy_constructible<O> && requires(const O order, const RequestView& request) {
  { order.rank(request) } -> std::convertible_to<std::int64_t>;
  { order.priority(request) } -> std::convertible_to<std::int64_t>;
};

/// Work that a step did for a request: no hits, nothing that was computed before.
struct WorkDone {
  std::int64_t prompt_tokens = 0;
  std::int64_t new_tokens = 0;
};

/// A request of no account waits in the queue of all such requests, and nothing is charged.
inline constexpr std::uint64_t kNoAccount = std::numeric_limits<std::uint64_t>::max();

/// An order with accounts: requests of the account that was charged least go first, inside an account by rank. One that comes back gets
/// no credit for its absence: it is lifted to the least among those present.
/// - `account(request)`: asked once, at submission. Each account is kept, about 100 bytes, and a plan looks at all of them.
/// - `charge(request, work)`: what its account is charged for that; less than 0 counts as 0.
template <class O>
concept AccountingOrder = OrderPolicy<O> && requires(const O order, const RequestView& request, const WorkDone& work) {
  { order.account(request) } -> std::convertible_to<std::uint64_t>;
  { order.charge(request, work) } -> std::convertible_to<std::int64_t>;
};

/// What a waiting request has in common with a prompt that is being computed.
struct SharedPrompt {
  std::int64_t shared_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< of the waiting request, now
};

/// An order by what is cached, over a cache with an index.
/// - `look_ahead()`: candidates of the queue that a plan ranks anew by their hits, each a look-up of its prompt; 0 = none.
/// - `rank_by_hit(request, cached_tokens)`: smaller goes first; ties by the key.
/// - `waits_for(shared)`: true to let a request wait for a prompt in the making; it waits 8 steps at most.
template <class O>
concept CacheAwareOrder = OrderPolicy<O> && requires(const O order, const RequestView& request, const SharedPrompt& shared) {
  { order.look_ahead() } -> std::convertible_to<std::int64_t>;
  { order.rank_by_hit(request, std::int64_t{}) } -> std::convertible_to<std::int64_t>;
  { order.waits_for(shared) } -> std::convertible_to<bool>;
};

/// Who was admitted since nobody ran.
struct FormedBatch {
  std::int64_t size = 0;
  bool closed = false;  ///< it has been full, or everybody who was there is in it
};

/// An order that says when requests may join those that run.
/// - `may_join(batch)`: asked once a plan while somebody runs; when nobody does, requests are admitted whatever it would say.
template <class O>
concept BatchingOrder = OrderPolicy<O> && requires(const O order, const FormedBatch& batch) {
  { order.may_join(batch) } -> std::convertible_to<bool>;
};

KVPAGE_END_NAMESPACE
