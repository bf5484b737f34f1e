/// \file feasibility: the least time that a request can take, by the injected costs.
#pragma once

#include <kvpage/sched/detail/scheduler_core.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Alone, at once, and to its full length. What the pool has of the prompt costs nothing, what a host tier may have costs its copies.
template <class Core>
[[nodiscard]] std::int64_t least_ns(const Core& core, const RequestSpec& spec, std::int64_t max_new_tokens) {
  const StepCosts costs = core.env->costs();
  const auto prompt = static_cast<std::int64_t>(spec.prompt.size());
  std::int64_t cached = 0;
  std::int64_t token_ns = costs.prefill_ns_per_token;
  if constexpr (Core::kIndexed) {
    const std::int64_t cap = spec.max_hit_tokens < 0 ? prompt : spec.max_hit_tokens;
    cached = core.cache->match({.name_space = spec.name_space, .tokens = spec.prompt, .max_tokens = cap}).num_tokens;
  }
  if constexpr (Core::kTiered) {
    if (core.cache->tier() != nullptr) token_ns = std::min(token_ns, costs.copy_ns_per_block * core.num_groups / core.block_size);
  }
  return (prompt - std::min(cached, prompt - 1)) * token_ns + max_new_tokens * costs.decode_ns_per_token;
}

/// Refuses a request whose deadline comes before that.
template <class Core>
[[nodiscard]] Expected<void, Refusal> check_deadline(const Core& core, const RequestSpec& spec, std::int64_t max_new_tokens) {
  if (!core.config.reject_infeasible || spec.finish_by_ns == 0) return {};
  const std::int64_t left_ns = spec.finish_by_ns - core.last_now_ns;
  const std::int64_t need_ns = least_ns(core, spec, max_new_tokens);
  if (need_ns < left_ns) return {};
  return Unexpected{Refusal{RefusalKind::kInfeasible, need_ns, left_ns, "ns"}};
}

}  // namespace detail
KVPAGE_END_NAMESPACE
