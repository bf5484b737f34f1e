/// \file RequestReport: what a run of requests got and cost, as one JSON object or as text.
#pragma once

#include "tools/kvpage/options.hpp"
#include "tools/kvpage/run_totals.hpp"

#include <optional>

namespace kvpage::cli {

struct LoadedModel;

/// Requires: everything that it points to outlives it.
struct RequestReport {
  const BenchOptions& options;
  const LoadedModel& model;
  const RunRecord& record;
  engine::CacheCounters cache{};
  SchedulerStats scheduler{};
  std::int64_t num_blocks = 0;               ///< of the pool
  std::int64_t budget_tokens = 0;            ///< of a step
  std::optional<std::int64_t> padded_rows{};  ///< of a static batch that was padded

  /// kExitRun when the model failed in a request, or the run was interrupted.
  ExitCode exit_code() const;

  void print_json() const;
  void print_text() const;
};

}  // namespace kvpage::cli
