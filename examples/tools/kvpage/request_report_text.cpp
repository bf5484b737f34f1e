/// \file The report of a run of requests as text for people.
#include "tools/kvpage/request_report.hpp"

#include "tools/kvpage/rates.hpp"

#include <cstdio>
#include <optional>
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
  const std::string cached = m.first_token_ns > 0 ? std::to_string(m.cached_tokens) : "-";
  std::printf("%-16s %8lld %8s %8lld %8zu %9lld %s %s %10.4f  %s\n", request.name.c_str(), n(m.prompt_tokens), cached.c_str(),
              n(m.positions_computed), output, n(preempted), figure_text("%10.4f", 10, times.ttft_s).c_str(),
              figure_text("%10.4f", 10, times.time_per_token_s).c_str(), times.end_to_end_s,
              std::string(engine::name_of(outcome.result->answers.front().finish)).c_str());
}

void print_percentiles(const char* name, const std::optional<Percentiles>& p) {
  if (p) std::printf("%-16s p50 %10.4f  p90 %10.4f  p99 %10.4f\n", name, p->p50, p->p90, p->p99);
}

/// ", 12.3 tok/s"; nothing without a figure.
std::string optional_text(const char* before, const char* format, std::optional<double> figure, const char* after) {
  return figure ? before + figure_text(format, 0, figure) + after : std::string();
}

}  // namespace

void RequestReport::print_text() const {
  std::printf("%-16s %8s %8s %8s %8s %9s %10s %10s %10s  %s\n", "id", "prompt", "cached", "computed", "output", "preempted", "ttft s",
              "s/token", "end s", "end");
  for (const RequestOutcome& outcome : record.outcomes) print_row(outcome);
  const Goals goals{options.slo_ttft_ms, options.slo_tpot_ms};
  const RunTotals t = total(record, goals);
  const SchedulerStats& s = scheduler;
  std::printf("%lld requests, %lld failed; %lld of %lld prompt tokens cached; %lld tokens in %.3f s%s%s\n",
              n(std::ssize(record.outcomes) - t.not_run), n(t.failed), n(t.cached_tokens), n(t.prompt_tokens), n(t.output_tokens),
              record.wall_s, optional_text(", ", "%.1f", t.output_tokens_per_s, " tok/s").c_str(),
              optional_text("; goodput ", "%.2f", t.goodput, goals.any() ? " requests/s" : " tokens/s").c_str());
  print_percentiles("ttft s", t.ttft_s);
  print_percentiles("s/token", t.time_per_token_s);
  print_percentiles("end to end s", t.end_to_end_s);
  std::printf("steps: %lld%s (budget %lld); preempted: %lld rows only, %lld to the host, %lld to be computed again\n",
              n(s.steps), optional_text(" of ", "%.1f", t.mean_step_tokens, " rows").c_str(), n(budget_tokens),
              n(s.preempted_keep), n(s.preempted_demote), n(s.preempted_recompute));
  std::printf("pages: %lld of %lld used at most%s; %lld copied, %lld evicted, %lld demoted, %lld promoted, "
              "%lld failed to load, %lld released behind windows\n",
              n(cache.peak_used_blocks), n(num_blocks), optional_text(", ", "%.1f", t.mean_used_blocks, " on average").c_str(),
              n(cache.copies), n(cache.evictions), n(cache.demoted),
              n(cache.promoted), n(cache.failed_loads), n(s.window_released));
  if (record.cascade_tokens > 0) std::printf("shared: %lld key positions read once for several sequences\n", n(record.cascade_tokens));
  if (padded_rows) std::printf("padding: %lld rows\n", n(*padded_rows));
  if (record.interrupted) std::printf("interrupted: %lld requests were not run\n", n(t.not_run));
}

}  // namespace kvpage::cli
