#include "tools/kvpage/cli_engine.hpp"

#include <algorithm>
#include <limits>

namespace kvpage::engine {

template class Engine<NamedPolicies, SystemEnv>;

}  // namespace kvpage::engine

namespace kvpage::cli {

NamedPolicies policies_of(const EngineOptions& options) {
  return {.order = policy_by_name(named_orders(), options.order).value(),
          .admission = policy_by_name(named_admissions(), options.admission).value(),
          .preemption = policy_by_name(named_preemptions(), options.preemption).value()};
}

engine::EngineConfig engine_config(const EngineOptions& options, const ModelOptions& model, std::int64_t num_requests) {
  engine::EngineConfig config;
  config.limits.max_seqs = options.max_seqs;
  config.limits.budget_tokens = options.budget_tokens;
  if (options.chunk_tokens > 0) config.limits.max_chunk_tokens = options.chunk_tokens;
  config.limits.max_waiting = options.max_waiting > 0 ? options.max_waiting : std::max<std::int64_t>(1, num_requests);
  if (options.max_waiting == 0) config.limits.max_waiting_tokens = std::numeric_limits<std::int64_t>::max();
  config.cache.evict = options.evict;
  config.cache.share_prefixes = model.prefix_cache;
  config.cache.host_tier_bytes = model.host_tier_bytes;
  return config;
}

}  // namespace kvpage::cli
