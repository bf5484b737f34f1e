/// \file RequestReport: what a file of requests got and cost, as one JSON object or as text.
#pragma once

#include "engine/serial_requests.hpp"
#include "tools/kvpage/options.hpp"

#include <string_view>
#include <vector>

namespace kvpage::cli {

struct LoadedModel;

struct RequestReport {
  const BenchOptions& options;
  const LoadedModel& model;
  std::vector<engine::RequestResult> results;
  engine::CacheCounters counters{};
  std::int64_t num_blocks = 0;  ///< of the pool
  std::int64_t not_run = 0;     ///< requests of the file that an interrupt left out
  std::int64_t steps = 0;
  double wall_s = 0;  ///< of all requests

  /// Somebody ended the run before its end.
  bool interrupted() const;
  /// kExitRun when that happened or the model failed in a request.
  ExitCode exit_code() const;

  void print_json() const;
  void print_text() const;
};

}  // namespace kvpage::cli
