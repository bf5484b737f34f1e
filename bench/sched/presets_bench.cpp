// What each scheduler preset gains over the defaults in the simulator, as JSON lines {"preset", "machine", ...}; times in seconds.
#include <kvpage/sched/simulator/load_world.hpp>
#include <kvpage/sched/simulator/preset_trials.hpp>

#include <cstdio>

namespace {

using namespace kvpage;
using Policies = SchedulerPolicies<AnyOrder, AnyAdmission>;

void print(const char* name, const LoadReport& report) {
  const auto ttft = [](const LoadAnswer& a) { return static_cast<double>(a.ttft_ns()) * 1e-9; };
  const auto e2e = [](const LoadAnswer& a) { return static_cast<double>(a.end_to_end_ns()) * 1e-9; };
  const auto pause = [](const LoadAnswer& a) { return static_cast<double>(a.longest_gap_ns) * 1e-9; };
  std::printf(", \"%s\": {\"tokens_per_s\": %.5g, \"ttft_mean_s\": %.4g, \"ttft_p99_s\": %.4g, \"e2e_mean_s\": %.4g, \"e2e_p99_s\": %.4g, "
              "\"longest_pause_p99_s\": %.4g, \"cached_tokens\": %lld, \"recomputed_tokens\": %lld}",
              name, report.tokens_per_s(), report.mean(ttft), report.quantile(0.99, ttft), report.mean(e2e), report.quantile(0.99, e2e),
              report.quantile(0.99, pause), static_cast<long long>(report.stats.cached_tokens),
              static_cast<long long>(report.stats.recomputed_tokens));
}

}  // namespace

int main() {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const PresetTrial& trial : preset_trials(seed, 4)) {
      const TrialResult result = run_preset_trial<LoadWorld<Policies>, Policies>(trial);
      std::printf("{\"preset\": \"%s\", \"machine\": \"%s\", \"seed\": %llu", trial.preset, trial.machine,
                  static_cast<unsigned long long>(seed));
      print("default", result.defaults);
      print("with_preset", result.preset);
      const char* what = trial.measure == TrialMeasure::kMeanTtft ? "ttft_mean" : "longest_pause_p99";
      std::printf(", \"measure\": \"%s\", \"gain\": %.4g}\n", what,
                  measure(trial.measure, result.defaults) / measure(trial.measure, result.preset));
    }
  }
}
