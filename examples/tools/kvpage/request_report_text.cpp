/// \file The report of a run of requests as text for people.
#include "tools/kvpage/request_report.hpp"

#include "tools/kvpage/rates.hpp"

#include <cstdio>
#include <string>

namespace kvpage::cli {
namespace {

long long n(std::int64_t count) { return static_cast<long long>(count); }

void print_row(const RequestOutcome& outcome) {
  const engine::GenerationRequest& request = outcome.request->request;
  if (!outcome.result) {
    if (!outcome.refusal) return;
    const Refusal& r = *outcome.refusal;
    std::printf("%-16s %8zu  %s (%lld, limit %lld %s)\n", request.name.c_str(), request.prompt_ids.size(), describe(r), n(r.value),
                n(r.limit), r.unit);
    return;
  }
  const engine::RequestMetrics& m = outcome.result->metrics;
  const RequestTimes times = times_of(outcome);
  std::size_t output = 0;
  for (const engine::Answer& answer : outcome.result->answers) output += answer.ids.size();
  const auto preempted = m.preempted_keep + m.preempted_demote + m.preempted_recompute;
  std::printf("%-16s %8lld %8lld %8lld %8zu %9lld %10.4f %10.4f %10.4f  %s\n", request.name.c_str(), n(m.prompt_tokens),
              n(m.cached_tokens), n(m.positions_computed), output, n(preempted), times.ttft_s, times.time_per_token_s, times.end_to_end_s,
              std::string(engine::name_of(outcome.result->answers.front().finish)).c_str());
}

void print_percentiles(const char* name, const Percentiles& p) {
  std::printf("%-16s p50 %10.4f  p90 %10.4f  p99 %10.4f\n", name, p.p50, p.p90, p.p99);
}

}  // namespace

void RequestReport::print_text() const {
  std::printf("%-16s %8s %8s %8s %8s %9s %10s %10s %10s  %s\n", "id", "prompt", "cached", "computed", "output", "preempted", "ttft s",
              "s/token", "end s", "end");
  for (const RequestOutcome& outcome : record.outcomes) print_row(outcome);
  const Goals goals{options.slo_ttft_ms, options.slo_tpot_ms};
  const RunTotals t = total(record, goals);
  const SchedulerStats& s = scheduler;
  std::printf("%lld requests, %lld failed; %lld of %lld prompt tokens cached; %lld tokens in %.3f s, %.1f tok/s; goodput %.2f %s\n",
              n(std::ssize(record.outcomes) - t.not_run), n(t.failed), n(t.cached_tokens), n(t.prompt_tokens), n(t.output_tokens),
              record.wall_s, rate(t.output_tokens, record.wall_s), t.goodput,
              goals.any() ? "requests/s" : "tokens/s");
  print_percentiles("ttft s", t.ttft_s);
  print_percentiles("s/token", t.time_per_token_s);
  print_percentiles("end to end s", t.end_to_end_s);
  std::printf("steps: %lld of %.1f rows (budget %lld); preempted: %lld rows only, %lld to the host, %lld to be computed again\n",
              n(s.steps), t.mean_step_tokens, n(budget_tokens), n(s.preempted_keep), n(s.preempted_demote), n(s.preempted_recompute));
  std::printf("pages: %lld of %lld used at most, %.1f on average; %lld copied, %lld evicted, %lld demoted, %lld promoted, "
              "%lld failed to load, %lld released behind windows\n",
              n(cache.peak_used_blocks), n(num_blocks), t.mean_used_blocks, n(cache.copies), n(cache.evictions), n(cache.demoted),
              n(cache.promoted), n(cache.failed_loads), n(s.window_released));
  if (record.cascade_tokens > 0) std::printf("shared: %lld key positions read once for several sequences\n", n(record.cascade_tokens));
  if (padded_rows) std::printf("padding: %lld rows\n", n(*padded_rows));
  if (record.interrupted) std::printf("interrupted: %lld requests were not run\n", n(t.not_run));
}

}  // namespace kvpage::cli
