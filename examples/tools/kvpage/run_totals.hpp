/// \file RunTotals: what a run of requests comes to: counts, percentiles, rates, use of pool and budget.
#pragma once

#include "tools/kvpage/percentiles.hpp"
#include "tools/kvpage/request_run.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvpage::cli {

/// Seconds of one request, as far as there was something to measure.
struct RequestTimes {
  std::optional<double> ttft_s{};            ///< from its arrival to its first token
  /// From there to the end of the request, per further token that its longest answer drew, the end token included. Of best_of and beams
  /// too much, if an answer that was dropped was longer: the request ends with its last answer, and only those that were kept are known.
  std::optional<double> time_per_token_s{};
  double end_to_end_s = 0;                   ///< from its arrival to its end
};
/// Requires: the outcome has a result.
RequestTimes times_of(const RequestOutcome& outcome);

/// All answers ended by a stop, their length or the pool: not by a client, a deadline or a fault.
bool ended_by_itself(const engine::GenerationResult& result);
/// An answer ended because its next token could not be drawn.
bool failed(const engine::GenerationResult& result);

/// Goals per request, in milliseconds; 0 = none.
struct Goals {
  double ttft_ms = 0;
  double tpot_ms = 0;

  bool any() const noexcept { return ttft_ms > 0 || tpot_ms > 0; }
  /// A first token that did not come met no goal; where no second one was drawn, there is no time per token to miss.
  bool met_by(const RequestTimes& times) const noexcept {
    if (ttft_ms > 0 && !(times.ttft_s && *times.ttft_s * 1e3 <= ttft_ms)) return false;
    return tpot_ms <= 0 || !times.time_per_token_s || *times.time_per_token_s * 1e3 <= tpot_ms;
  }
};

struct RunTotals {
  std::int64_t refused = 0;
  std::int64_t failed = 0;     ///< refused, or ended by a fault
  std::int64_t not_run = 0;
  std::int64_t prompt_tokens = 0;  ///< of requests that had a first token
  std::int64_t cached_tokens = 0;
  std::int64_t positions_computed = 0;
  std::int64_t output_tokens = 0;  ///< of all answers
  std::optional<Percentiles> ttft_s, time_per_token_s, end_to_end_s;  ///< of requests that ended by themselves
  /// Requests per second that met the goals; without goals, tokens per second of those that ended by themselves.
  std::optional<double> goodput;
  std::optional<double> output_tokens_per_s;
  std::optional<double> mean_used_blocks;     ///< over steps
  std::optional<double> mean_step_tokens;
  std::optional<std::int64_t> peak_step_tokens;
};

RunTotals total(const RunRecord& record, const Goals& goals);

}  // namespace kvpage::cli
