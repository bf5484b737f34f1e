/// \file LongestPrefix: requests whose prompt is cached go first.
#pragma once

#include <kvpage/sched/order_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Among the first 128 by arrival, the one with the most cached tokens, so that a prefix is used while it is there. One that shares 32
/// tokens or more with a prompt in the making waits up to 8 steps for them. Source: idea and numbers of SGLang,
/// managers/schedule_policy.py.
struct LongestPrefix : OrderDefaults {
  static constexpr std::int64_t kMaxRanked = 128;
  static constexpr std::int64_t kWorthWaiting = 32;
  [[nodiscard]] std::int64_t rank(const RequestView& request) const noexcept { return request.arrival_ns; }
  [[nodiscard]] std::int64_t look_ahead() const noexcept { return kMaxRanked; }
  [[nodiscard]] std::int64_t rank_by_hit(const RequestView&, std::int64_t cached_tokens) const noexcept { return -cached_tokens; }
  /// A prompt that is being computed will soon be a longer hit than what is cached now.
  [[nodiscard]] bool waits_for(const SharedPrompt& shared) const noexcept {
    return shared.shared_tokens - shared.cached_tokens >= kWorthWaiting;
  }
};
static_assert(CacheAwareOrder<LongestPrefix>);

KVPAGE_END_NAMESPACE
