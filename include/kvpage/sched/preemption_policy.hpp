/// \file PreemptionPolicy: which sequence gives way when blocks or rows run out, as a type.
#pragma once

#include <kvpage/sched/request_record.hpp>

#include <concepts>
#include <tuple>

KVPAGE_BEGIN_NAMESPACE

/// A sequence that may give way. Who may not: the leader, a guarded turn, rows of a sealed step, and whoever is not behind the
/// beneficiary.
struct PreemptionCandidate {
  std::int64_t base_priority = 0;  ///< 0 = most urgent
  std::int64_t lost_ns = 0;        ///< work thrown away
  std::int64_t freed_blocks = 0;   ///< blocks that nobody else holds
  RankKey key{};
  std::int64_t new_tokens = 0;
};

/// `worse(a, b)`: a gives way before b. A strict weak order.
template <class P>
concept PreemptionPolicy = std::copy_constructible<P> && requires(const P policy, const PreemptionCandidate& c) {
  { policy.worse(c, c) } -> std::convertible_to<bool>;
};

/// The least urgent; among equals the one that loses least per block it frees; then the one that came last.
struct PreemptByCost {
  [[nodiscard]] bool worse(const PreemptionCandidate& a, const PreemptionCandidate& b) const noexcept {
    if (a.base_priority != b.base_priority) return a.base_priority > b.base_priority;
    if ((a.freed_blocks > 0) != (b.freed_blocks > 0)) return a.freed_blocks > 0;
    const double cost_a = static_cast<double>(a.lost_ns) * static_cast<double>(b.freed_blocks);
    const double cost_b = static_cast<double>(b.lost_ns) * static_cast<double>(a.freed_blocks);
    return cost_a != cost_b ? cost_a < cost_b : a.key > b.key;
  }
};

/// The least urgent, then the one that came last.
struct PreemptLast {
  [[nodiscard]] bool worse(const PreemptionCandidate& a, const PreemptionCandidate& b) const noexcept {
    return std::tie(a.base_priority, a.key) > std::tie(b.base_priority, b.key);
  }
};

static_assert(PreemptionPolicy<PreemptByCost> && PreemptionPolicy<PreemptLast>);

KVPAGE_END_NAMESPACE
