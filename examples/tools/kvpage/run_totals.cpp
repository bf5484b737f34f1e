#include "tools/kvpage/run_totals.hpp"

#include "tools/kvpage/rates.hpp"

#include <algorithm>

namespace kvpage::cli {
namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::int64_t output_tokens(const engine::GenerationResult& result) {
  std::int64_t sum = 0;
  for (const engine::Answer& answer : result.answers) sum += std::ssize(answer.ids);
  return sum;
}

/// The samples behind the percentiles and the goodput.
struct Samples {
  std::vector<double> ttft_s, time_per_token_s, end_to_end_s;
  std::int64_t good = 0;  ///< requests that met the goals, or tokens where there are none
};

void add_finished(const RequestOutcome& outcome, const Goals& goals, Samples& samples) {
  const RequestTimes times = times_of(outcome);
  if (times.ttft_s) samples.ttft_s.push_back(*times.ttft_s);
  if (times.time_per_token_s) samples.time_per_token_s.push_back(*times.time_per_token_s);
  samples.end_to_end_s.push_back(times.end_to_end_s);
  if (!goals.any()) samples.good += output_tokens(*outcome.result);
  else if (goals.met_by(times)) ++samples.good;
}

/// Means and the peak over the steps, if there was one.
void add_steps(const std::vector<StepRecord>& steps, RunTotals& totals) {
  if (steps.empty()) return;
  double blocks = 0, tokens = 0;
  totals.peak_step_tokens = 0;
  for (const StepRecord& step : steps) {
    blocks += static_cast<double>(step.used_blocks);
    tokens += static_cast<double>(step.num_tokens);
    totals.peak_step_tokens = std::max(*totals.peak_step_tokens, step.num_tokens);
  }
  totals.mean_used_blocks = blocks / static_cast<double>(steps.size());
  totals.mean_step_tokens = tokens / static_cast<double>(steps.size());
}

void add(const RequestOutcome& outcome, const Goals& goals, RunTotals& totals, Samples& samples) {
  totals.refused += outcome.refusal ? 1 : 0;
  totals.failed += outcome.refusal || (outcome.result && failed(*outcome.result)) ? 1 : 0;
  totals.not_run += !outcome.refusal && !outcome.result ? 1 : 0;
  if (!outcome.result) return;
  const engine::RequestMetrics& metrics = outcome.result->metrics;
  if (metrics.first_token_ns > 0) totals.prompt_tokens += metrics.prompt_tokens;
  totals.cached_tokens += metrics.cached_tokens;
  totals.positions_computed += metrics.positions_computed;
  totals.output_tokens += output_tokens(*outcome.result);
  if (ended_by_itself(*outcome.result)) add_finished(outcome, goals, samples);
}

}  // namespace

RequestTimes times_of(const RequestOutcome& outcome) {
  const engine::RequestMetrics& metrics = outcome.result->metrics;
  RequestTimes times{.end_to_end_s = seconds(metrics.finished_ns - outcome.arrival_ns)};
  if (metrics.first_token_ns == 0) return times;
  times.ttft_s = seconds(metrics.first_token_ns - outcome.arrival_ns);
  std::int64_t longest = 0;
  for (const engine::Answer& answer : outcome.result->answers) longest = std::max(longest, answer.num_drawn);
  if (longest > 1) times.time_per_token_s = seconds(metrics.finished_ns - metrics.first_token_ns) / static_cast<double>(longest - 1);
  return times;
}

bool ended_by_itself(const engine::GenerationResult& result) {
  return std::all_of(result.answers.begin(), result.answers.end(), [](const engine::Answer& answer) {
    return answer.finish == FinishReason::kStop || answer.finish == FinishReason::kLength || answer.finish == FinishReason::kCapacity;
  });
}

bool failed(const engine::GenerationResult& result) {
  return std::any_of(result.answers.begin(), result.answers.end(),
                     [](const engine::Answer& answer) { return answer.finish == FinishReason::kError; });
}

RunTotals total(const RunRecord& record, const Goals& goals) {
  RunTotals totals;
  Samples samples;
  for (const RequestOutcome& outcome : record.outcomes) add(outcome, goals, totals, samples);
  totals.ttft_s = Percentiles::of(std::move(samples.ttft_s));
  totals.time_per_token_s = Percentiles::of(std::move(samples.time_per_token_s));
  totals.end_to_end_s = Percentiles::of(std::move(samples.end_to_end_s));
  if (!record.steps.empty()) {  // else nothing was computed, at no rate
    totals.goodput = rate(samples.good, record.wall_s);
    totals.output_tokens_per_s = rate(totals.output_tokens, record.wall_s);
  }
  add_steps(record.steps, totals);
  return totals;
}

}  // namespace kvpage::cli
