#include "tools/kvpage/run_totals.hpp"

#include <algorithm>

namespace kvpage::cli {
namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::int64_t output_tokens(const engine::GenerationResult& result) {
  std::int64_t sum = 0;
  for (const engine::Answer& answer : result.answers) sum += std::ssize(answer.ids);
  return sum;
}

/// The samples behind the percentiles.
struct Samples {
  std::vector<double> ttft_s, time_per_token_s, end_to_end_s;
};

void add_finished(const RequestOutcome& outcome, const Goals& goals, RunTotals& totals, Samples& samples) {
  const RequestTimes times = times_of(outcome);
  samples.ttft_s.push_back(times.ttft_s);
  samples.end_to_end_s.push_back(times.end_to_end_s);
  if (times.time_per_token_s > 0) samples.time_per_token_s.push_back(times.time_per_token_s);
  if (!goals.any()) totals.goodput += static_cast<double>(output_tokens(*outcome.result));
  else if (goals.met_by(times)) totals.goodput += 1;
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
  if (ended_by_itself(*outcome.result)) add_finished(outcome, goals, totals, samples);
}

}  // namespace

RequestTimes times_of(const RequestOutcome& outcome) {
  const engine::RequestMetrics& metrics = outcome.result->metrics;
  RequestTimes times{.ttft_s = 0, .time_per_token_s = 0, .end_to_end_s = seconds(metrics.finished_ns - outcome.arrival_ns)};
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
  totals.goodput = record.wall_s > 0 ? totals.goodput / record.wall_s : 0;
  for (const StepRecord& step : record.steps) {
    totals.mean_used_blocks += static_cast<double>(step.used_blocks);
    totals.mean_step_tokens += static_cast<double>(step.num_tokens);
    totals.peak_step_tokens = std::max(totals.peak_step_tokens, step.num_tokens);
  }
  const auto num_steps = static_cast<double>(std::max<std::size_t>(1, record.steps.size()));
  totals.mean_used_blocks /= num_steps;
  totals.mean_step_tokens /= num_steps;
  return totals;
}

}  // namespace kvpage::cli
