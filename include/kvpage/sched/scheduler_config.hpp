/// \file SchedulerConfig: limits of a ContinuousScheduler.
#pragma once

#include <kvpage/base/error.hpp>

#include <limits>

KVPAGE_BEGIN_NAMESPACE

/// Limits of steps, queue and requests.
struct SchedulerConfig {
  std::int64_t budget_tokens = 2048;      ///< rows of one step
  std::int64_t max_seqs = 128;            ///< sequences of one step
  std::int64_t max_chunk_tokens = std::numeric_limits<std::int64_t>::max();  ///< rows of one sequence in one step
  std::int64_t chunk_align = 1;           ///< a chunk that does not end its sequence ends at a multiple; 1 if kernels are row-invariant
  std::int64_t context_limit = std::numeric_limits<std::int64_t>::max() / 4;  ///< tokens of prompt and answer
  std::int64_t max_waiting = 1024;        ///< requests in the queue
  std::int64_t max_waiting_tokens = std::int64_t{64} << 20;  ///< tokens that the queue has room for, see Request::room_tokens; 256 MB
  std::int64_t max_tenant_requests = std::numeric_limits<std::int64_t>::max();  ///< in flight
  std::int64_t max_samples = 128;         ///< answers of one request
  std::int64_t starve_after_ns = 60'000'000'000;  ///< who waited longer is overdue: it goes before all others, and its turn is guarded
  std::int64_t max_bypasses = 16;         ///< requests that may overtake one that lacks blocks or is overdue
  std::int64_t max_examined = 32;         ///< waiting requests that lack blocks which one step looks at
  std::int64_t shield_after = 3;          ///< preemptions after which it gives way to the leader alone, in a guarded turn to nobody
  std::int64_t max_aborts = 3;            ///< aborts in a row after which `abort` reports an error
  bool share_prefixes = true;             ///< off: nothing is published and nothing found; then a preempted request computes all again
  bool reject_infeasible = false;         ///< refuse a request that StepCosts says cannot finish by its deadline, even alone

  /// Errors: ConfigError for each value that cannot work.
  void check() const {
    require_in(1, 1 << 20, "max_seqs must be in [1, 2^20]", max_seqs, "sequences");
    require(chunk_align >= 1, "chunk_align must be at least 1", chunk_align, 1, "tokens");
    require(budget_tokens >= max_seqs + chunk_align, "budget_tokens must be at least max_seqs + chunk_align", budget_tokens,
            max_seqs + chunk_align, "tokens");
    require(max_chunk_tokens >= chunk_align, "max_chunk_tokens must be at least chunk_align", max_chunk_tokens, chunk_align, "tokens");
    require(context_limit >= 2, "context_limit must be at least 2", context_limit, 2, "tokens");
    require_in(1, 1 << 24, "max_waiting must be in [1, 2^24]", max_waiting, "requests");
    require(max_waiting_tokens >= 1, "max_waiting_tokens must be at least 1", max_waiting_tokens, 1, "tokens");
    require(max_tenant_requests >= 1, "max_tenant_requests must be at least 1", max_tenant_requests, 1, "requests");
    require_in(1, 1024, "max_samples must be in [1, 1024]", max_samples, "answers");
    require(starve_after_ns >= 0, "starve_after_ns must not be negative", starve_after_ns, 0, "ns");
    require(max_bypasses >= 0, "max_bypasses must not be negative", max_bypasses, 0, "requests");
    require_in(1, 1 << 20, "max_examined must be in [1, 2^20]", max_examined, "requests");
    require(shield_after >= 1, "shield_after must be at least 1", shield_after, 1, "preemptions");
    require(max_aborts >= 1, "max_aborts must be at least 1", max_aborts, 1, "aborts");
  }

 private:
  static void require(bool holds, const char* what, std::int64_t value, std::int64_t limit, const char* unit) {
    if (!holds) throw_config_error(what, value, limit, unit);
  }
  static void require_in(std::int64_t least, std::int64_t most, const char* what, std::int64_t value, const char* unit) {
    require(value >= least, what, value, least, unit);
    require(value <= most, what, value, most, unit);
  }
};

/// What committed steps did so far. Preemptions and lost contents count at once: a step that fails does not undo them.
struct SchedulerStats {
  std::int64_t steps = 0;               ///< committed
  std::int64_t aborted_steps = 0;
  std::int64_t tokens = 0;              ///< rows of committed steps
  std::int64_t sampled_tokens = 0;
  std::int64_t admissions = 0;          ///< with resumptions
  std::int64_t cached_tokens = 0;       ///< rows saved by prefix hits
  std::int64_t recomputed_tokens = 0;   ///< rows lost by preemption
  std::int64_t preempted_keep = 0;      ///< only the row was taken
  std::int64_t preempted_demote = 0;    ///< blocks were taken, and bringing them back from the host tier is cheaper than computing them
  std::int64_t preempted_recompute = 0;
  std::int64_t demoted = 0;             ///< pages saved in the host tier
  std::int64_t promoted = 0;            ///< pages brought back from it
  std::int64_t failed_loads = 0;        ///< pages that did not come back, or came back damaged
  std::int64_t lost_contents = 0;       ///< sequences to be computed again because an aborted step overwrote them
  std::int64_t forks = 0;
  std::int64_t block_copies = 0;
  std::int64_t window_released = 0;     ///< blocks
  std::int64_t bypasses = 0;
  std::int64_t yielded_pins = 0;
  std::int64_t leader_steps = 0;        ///< committed steps that advanced the leader: the measure of health
};

KVPAGE_END_NAMESPACE
