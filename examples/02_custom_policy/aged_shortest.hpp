/// \file AgedShortest: an order of requests that the library does not have, as an example of a policy of one's own.
#pragma once

#include <kvpage/sched/order_policy.hpp>

namespace own {

/// Short requests first, but none waits longer than in proportion to its own length.
///
/// A request is ranked as if it had come `patience` times its own service time later: a short question overtakes a long report that
/// came shortly before it, but not one that has waited its share. Shortest alone lets long requests wait as long as short ones come;
/// Fcfs lets short ones wait for long ones. `rank` depends on the request alone, as an OrderPolicy promises, so that the scheduler's
/// proof that every request ends holds for this order too.
struct AgedShortest : kvpage::OrderDefaults {
  std::int64_t prefill_ns_per_token = 100'000;   ///< of the machine; only the size matters
  std::int64_t decode_ns_per_token = 10'000'000;
  std::int64_t patience = 8;

  /// How long it would take on an empty machine if it used all that it is allowed.
  [[nodiscard]] std::int64_t service_ns(const kvpage::RequestView& request) const noexcept {
    return request.prompt_tokens * prefill_ns_per_token + request.max_new_tokens * decode_ns_per_token;
  }
  [[nodiscard]] std::int64_t rank(const kvpage::RequestView& request) const noexcept {
    return request.arrival_ns + patience * service_ns(request);
  }
};
static_assert(kvpage::OrderPolicy<AgedShortest>);

}  // namespace own
