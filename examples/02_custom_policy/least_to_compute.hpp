/// \file LeastToCompute: a cache-aware order of one's own: whoever costs least now goes first.
#pragma once

#include <kvpage/sched/order_policy.hpp>

namespace own {

/// By the tokens of the prompt that are not cached: a short new prompt goes before a long one of which most is cached, if less of it is
/// to be computed. LongestPrefix would take the long one. Nobody waits for a prompt in the making.
struct LeastToCompute : kvpage::OrderDefaults {
  [[nodiscard]] std::int64_t rank(const kvpage::RequestView& request) const noexcept { return request.arrival_ns; }
  [[nodiscard]] std::int64_t look_ahead() const noexcept { return 32; }
  [[nodiscard]] std::int64_t rank_by_hit(const kvpage::RequestView& request, std::int64_t cached_tokens) const noexcept {
    return request.prompt_tokens - cached_tokens;
  }
  [[nodiscard]] bool waits_for(const kvpage::SharedPrompt&) const noexcept { return false; }
};
static_assert(kvpage::CacheAwareOrder<LeastToCompute>);

}  // namespace own
