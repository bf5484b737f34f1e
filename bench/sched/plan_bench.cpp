// Cost of the scheduler alone, as JSON lines {"figure", "value", "unit"}: plan + commit per running sequence, steps with a long queue,
// simulated seeds per second, and how many steps continuous batching saves. Step times are processor time of the thread: the scheduler
// never waits for anything, and another program's turn is not its cost.
#include "02_custom_policy/aged_shortest.hpp"
#include "scheduler_load.hpp"
#include "tools/simulator/simulation.hpp"


#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>

namespace {

using namespace kvpage;
using kvpage_bench::LoadShape;
using kvpage_bench::SchedulerLoad;

void report(const std::string& figure, double value, const char* unit) {
  std::printf("{\"figure\": \"sched.%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", figure.c_str(), value, unit);
}

double thread_us() {
  timespec time{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) std::abort();
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

double step_us(SchedulerLoad& load) {
  const double start = thread_us();
  load.step();
  return thread_us() - start;
}

double quantile(std::vector<double>& values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Median time of a step in which everybody decodes and nobody waits.
double decode_us(std::int64_t num_running) {
  SchedulerLoad load({.max_seqs = num_running}, Fcfs{});
  for (std::int64_t i = 0; i < num_running; ++i) load.submit();
  for (std::int64_t i = 0; i < num_running * 128 / 8192 + 64; ++i) load.step();
  if (load.num_running() != num_running) std::abort();
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) times.push_back(step_us(load));
  return quantile(times, 0.5);
}

/// A kind of queue. Short answers end all the time, so that the queue is looked at in every step.
struct Queue {
  const char* name;
  LoadShape shape;
};
const Queue kQueues[] = {
    {"rows_short", {.min_new = 4, .max_new = 12}},
    {"blocks_short", {.num_blocks = 1200, .min_own = 16, .max_own = 240, .min_new = 4, .max_new = 60}},  // 256 rows would take 2,700
    {"shared_prompts", {.shared_tokens = 1024, .min_new = 4, .max_new = 12}},
};

/// Steps with a queue that is filled up outside of the measured time.
struct QueueTimes {
  double median_us = 0, p99_us = 0;
  std::string per_step;  ///< JSON: what happened in a step, on average
};

std::string averages(const SchedulerStats& before, const SchedulerStats& after, double num_steps, double running) {
  const std::pair<const char*, std::int64_t SchedulerStats::*> counters[] = {
      {"rows", &SchedulerStats::tokens}, {"admissions", &SchedulerStats::admissions}, {"cached_tokens", &SchedulerStats::cached_tokens},
      {"bypasses", &SchedulerStats::bypasses}, {"recomputed_tokens", &SchedulerStats::recomputed_tokens}};
  char text[64];
  std::snprintf(text, sizeof text, "{\"running\": %.4g", running / num_steps);
  std::string json = text;
  for (const auto& [name, counter] : counters) {
    std::snprintf(text, sizeof text, ", \"%s\": %.4g", name, static_cast<double>(after.*counter - before.*counter) / num_steps);
    json += text;
  }
  return json + "}";
}

QueueTimes queue_times(const LoadShape& shape, const AnyOrder& order, std::int64_t num_waiting) {
  constexpr int kWarmUp = 100, kSteps = 300;
  SchedulerLoad load(shape, order);
  std::vector<double> times;
  SchedulerStats before{};
  double running = 0;
  for (int i = 0; i < kWarmUp + kSteps; ++i) {
    load.fill_queue(num_waiting);
    if (i == kWarmUp) before = load.stats();
    const double us = step_us(load);
    if (i < kWarmUp) continue;
    times.push_back(us);
    running += static_cast<double>(load.num_running());
  }
  if (load.stats().admissions - before.admissions < kSteps) std::abort();  // then steps did not look at the queue
  return {quantile(times, 0.5), quantile(times, 0.99), averages(before, load.stats(), kSteps, running)};
}

/// 10,000 wait, in each kind of queue, under each shipped order and a user's own. The figures are the slowest median and P99 of steps.
void long_queues() {
  const std::pair<const char*, AnyOrder> orders[] = {
      {"fcfs", Fcfs{}}, {"priority", PriorityOrder{}}, {"shortest", Shortest{}}, {"longest_prefix", LongestPrefix{}},
      {"fair_share", FairShare{}}, {"deadline", DeadlineOrder{}}, {"static", StaticBatch{}}, {"aged_shortest", own::AgedShortest{}}};
  static_assert(std::size(orders) == AnyOrder::kNumKinds + 1);
  double median = 0, p99 = 0;
  for (const Queue& queue : kQueues) {
    for (const auto& [name, order] : orders) {
      const QueueTimes times = queue_times(queue.shape, order, 10'000);
      std::printf("{\"figure\": \"sched.waiting_10000.%s.%s\", \"value\": %.6g, \"unit\": \"ms/step\", \"p99\": %.6g, \"per_step\": %s}\n",
                  queue.name, name, times.median_us / 1000, times.p99_us / 1000, times.per_step.c_str());
      median = std::max(median, times.median_us), p99 = std::max(p99, times.p99_us);
    }
  }
  report("waiting_10000", median / 1000, "ms/step");
  report("waiting_10000_p99", p99 / 1000, "ms/step");
  const LoadShape& shape = kQueues[0].shape;
  report("waiting_10000_over_100", queue_times(shape, Fcfs{}, 10'000).median_us / queue_times(shape, Fcfs{}, 100).median_us, "ratio");
}

/// Steps that 1,000 requests take, of which 90 % want 8 tokens and 10 % want 256, sixteen at a time.
double steps_of(const AnyOrder& order) {
  SchedulerLoad load({.max_seqs = 16}, order);
  for (int i = 0; i < 1000; ++i) load.submit(i % 10 == 3 ? 256 : 8);
  double steps = 0;
  for (; load.num_requests() > 0; ++steps) load.step();
  return steps;
}

/// Seeds on all cores, each thread its own.
void simulator() {
  constexpr std::uint64_t kSeeds = 2000;
  const unsigned num_threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::int64_t> steps{0};
  std::atomic<std::uint64_t> next{0};
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < num_threads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t seed = next++; seed < kSeeds; seed = next++) {
        const SimReport run = simulate(draw_sim_config(seed));
        if (run.violation != nullptr) std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), run.violation);
        if (run.violation != nullptr) std::exit(1);
        steps += run.sealed_steps;
      }
    });
  }
  threads.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report("sim_seeds", static_cast<double>(kSeeds) / seconds, "seeds/s");
  report("sim_steps", static_cast<double>(steps) / seconds, "steps/s");
}

}  // namespace

int main() {
  const double plan_256 = decode_us(256);
  const double plan_1024 = decode_us(1024);
  report("plan_commit_256", plan_256 / 256, "us/sequence");
  report("plan_commit_1024", plan_1024 / 1024, "us/sequence");
  report("plan_commit_1024_over_256", plan_1024 / 1024 / (plan_256 / 256), "ratio");
  long_queues();
  report("continuous_over_static_sim", steps_of(StaticBatch{}) / steps_of(Fcfs{}), "ratio");
  simulator();
}
