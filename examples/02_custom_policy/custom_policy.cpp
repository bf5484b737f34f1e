/// \file A policy of one's own, compared with two of the library on simulated requests: same scheduler, same allocator, no model.
#include "02_custom_policy/aged_shortest.hpp"

#include <kvpage/sched/order_shortest.hpp>
#include <kvpage/sched/simulator/load_world.hpp>
#include <kvpage/sched/any_policies.hpp>
#include <kvpage/sched/simulator/situation_loads.hpp>

#include <cstdio>

namespace {

// AnyOrder takes any order at run time, so that one scheduler is compiled for all three. A program that has made its choice writes
// ContinuousScheduler<Allocator, SchedulerPolicies<AgedShortest>, Env>.
using Policies = kvpage::SchedulerPolicies<kvpage::AnyOrder>;

constexpr kvpage::StepTime kMachine{.fixed_ns = 9e6, .row_ns = 1e5, .kv_token_ns = 100};

/// For three minutes requests come a little faster than the machine answers them. Nine of ten are questions, one is a long report.
std::vector<kvpage::LoadRequest> requests() {
  kvpage::SituationLoads draw{11};
  std::vector<kvpage::LoadRequest> load = draw.edge(1200, 1.6e8);
  for (std::size_t i = 0; i < load.size(); ++i) {
    load[i].new_tokens = load[i].max_new_tokens = i % 10 == 0 ? draw.log_uniform(300, 600) : draw.log_uniform(10, 60);
  }
  return load;
}

void compare(const char* name, const kvpage::AnyOrder& order, const std::vector<kvpage::LoadRequest>& load) {
  constexpr std::int64_t kNeverInThisRun = 1'000'000'000'000'000;  // the scheduler's own guard is out of the comparison
  const kvpage::SchedulerConfig limits{
      .budget_tokens = 256, .max_seqs = 4, .max_waiting = std::ssize(load), .starve_after_ns = kNeverInThisRun};
  kvpage::LoadWorld<Policies> world({.num_blocks = 1024, .block_size = 16, .max_seqs = 4}, limits, Policies{order, {}, {}});
  const kvpage::LoadReport report = kvpage::simulate_load(world, load, kMachine);
  const auto seconds = [](const kvpage::LoadAnswer& a) { return static_cast<double>(a.end_to_end_ns()) * 1e-9; };
  std::printf("%-14s mean %5.1f s   half are done in %5.1f s   99 %% in %5.1f s   the last in %5.1f s\n", name, report.mean(seconds),
              report.quantile(0.5, seconds), report.quantile(0.99, seconds), report.quantile(1, seconds));
}

}  // namespace

int main() {
  const auto load = requests();
  std::printf("from arrival to last token, %zu requests, 4 at a time:\n", load.size());
  compare("Fcfs", kvpage::Fcfs{}, load);
  compare("Shortest", kvpage::Shortest{}, load);
  compare("AgedShortest", own::AgedShortest{}, load);
  return 0;
}
