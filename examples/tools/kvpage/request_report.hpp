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
  std::int64_t steps = 0;
  double wall_s = 0;  ///< of all requests

  void print_json() const;
  void print_text() const;
};

}  // namespace kvpage::cli
