/// \file ScheduledLoad: requests through the production scheduler and allocator on a virtual clock, recorded as the engine records.
#pragma once

#include "engine/trace/trace_recorder.hpp"

#include <kvpage/sched/scheduler_config.hpp>

#include <cstdint>
#include <string>

namespace kvpage_test {

struct ScheduledLoadOptions {
  std::int64_t num_blocks = 64;
  std::int64_t max_seqs = 16;
  std::int64_t budget_tokens = 64;
  std::int64_t num_requests = 60;
  std::int64_t longest_prompt = 200;
  std::int64_t longest_answer = 60;
  std::int64_t ns_between_requests = 8'000'000;
  std::int64_t abort_every = 50;  ///< steps
};

/// What was done, counted without the trace.
struct ScheduledCounts {
  kvpage::SchedulerStats stats{};
  std::int64_t sealed_steps = 0;
  std::int64_t evictions = 0;
  std::int64_t output_tokens = 0;
  std::int64_t answers = 0;
};

/// Runs all requests to their ends, and records them at `path`: shared prefixes, several answers, priorities that preempt, aborted steps.
ScheduledCounts record_scheduled_load(const std::string& path, const ScheduledLoadOptions& options);

}  // namespace kvpage_test
