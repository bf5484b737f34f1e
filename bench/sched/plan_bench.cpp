// Cost of the scheduler alone, as JSON lines {"figure", "value", "unit"}: plan + commit per running sequence, steps with a long queue,
// simulated seeds per second, and how many steps continuous batching saves.
#include "02_custom_policy/aged_shortest.hpp"

#include <kvpage/sched/any_policies.hpp>
#include <kvpage/sched/simulator/simulation.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

using namespace kvpage;
using Clock = std::chrono::steady_clock;
using Cache = BlockAllocator<>;
using Policies = SchedulerPolicies<AnyOrder, AnyAdmission>;

void report(const char* figure, double value, const char* unit) {
  std::printf("{\"figure\": \"sched.%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", figure, value, unit);
}

struct Env {
  std::int64_t now_ns() const { return 0; }
  std::uint64_t draw_seed() const { return 1; }
  std::pmr::memory_resource* memory() const { return std::pmr::get_default_resource(); }
  StepCosts costs() const { return {}; }
  void on_event(const RequestEvent&) {}
};

/// A scheduler with a cache in which everybody fits.
class Load {
 public:
  static constexpr std::int64_t kMaxNew = 512;

  Load(std::int64_t num_running, const AnyOrder& order)
      : pool_{.num_blocks = num_running * kBlocksPerSeq, .block_size = 16, .max_seqs = num_running, .max_blocks_per_seq = kBlocksPerSeq},
        memory_(Cache::required_bytes(pool_, Cache::IndexOptions{SipSecret{1, 2}})),
        cache_(pool_, memory_, Cache::IndexOptions{SipSecret{1, 2}}),
        scheduler_({.budget_tokens = 8192, .max_seqs = num_running, .max_waiting = 1 << 20}, cache_,
                   {order, AnyAdmission{}, {}}, env_) {}

  void submit(std::int64_t max_new) {
    std::vector<TokenId> prompt(128);
    for (TokenId& token : prompt) token = static_cast<TokenId>(random_.next() % 50'000);
    const RequestSpec spec{.id = RequestId{next_id_}, .prompt = prompt, .max_new_tokens = max_new,
                           .tenant = static_cast<std::uint32_t>(next_id_ % 100)};
    ++next_id_;
    if (!scheduler_.submit(spec)) std::abort();
  }
  void step() {
    const BatchPlan& batch = scheduler_.plan();
    if (!scheduler_.seal()) std::abort();
    results_.resize(batch.samples.size());
    for (SampleResult& result : results_) result.token = static_cast<TokenId>(++last_token_ % 50'000);
    scheduler_.commit(results_);
  }
  [[nodiscard]] std::int64_t num_running() const { return scheduler_.num_running(); }
  [[nodiscard]] std::int64_t num_requests() const { return scheduler_.num_requests(); }

 private:
  static constexpr std::int64_t kBlocksPerSeq = (128 + kMaxNew) / 16 + 2;
  BlockAllocatorConfig pool_;
  std::vector<std::byte> memory_;
  Env env_;
  Cache cache_;
  ContinuousScheduler<Cache, Policies, Env> scheduler_;
  SimRandom random_{1};
  std::vector<SampleResult> results_;
  std::uint64_t next_id_ = 0;
  std::uint64_t last_token_ = 0;
};

/// Median time of a step in which everybody decodes.
double step_us(std::int64_t num_running, std::int64_t num_waiting, const AnyOrder& order) {
  Load load{num_running, order};
  for (std::int64_t i = 0; i < num_running + num_waiting; ++i) load.submit(Load::kMaxNew);
  for (std::int64_t i = 0; i < num_running * 128 / 8192 + 64; ++i) load.step();
  if (load.num_running() != num_running) std::abort();
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    load.step();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 100, times.end());
  return times[100];
}

/// Steps that 1,000 requests take, of which 90 % want 8 tokens and 10 % want 256, sixteen at a time.
double steps_of(const AnyOrder& order) {
  Load load{16, order};
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
  const auto start = Clock::now();
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
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  report("sim_seeds", static_cast<double>(kSeeds) / seconds, "seeds/s");
  report("sim_steps", static_cast<double>(steps) / seconds, "steps/s");
}

}  // namespace

int main() {
  const double plan_256 = step_us(256, 0, Fcfs{});
  const double plan_1024 = step_us(1024, 0, Fcfs{});
  report("plan_commit_256", plan_256 / 256, "us/sequence");
  report("plan_commit_1024", plan_1024 / 1024, "us/sequence");
  report("plan_commit_1024_over_256", plan_1024 / 1024 / (plan_256 / 256), "ratio");
  double slowest = step_us(256, 10'000, engine::AgedShortest{});  // a user's own order
  for (std::size_t order = 0; order < AnyOrder::kNumKinds; ++order) slowest = std::max(slowest, step_us(256, 10'000, AnyOrder::of(order)));
  report("waiting_10000", slowest / 1000, "ms/step");
  report("waiting_10000_over_100", step_us(256, 10'000, Fcfs{}) / step_us(256, 100, Fcfs{}), "ratio");
  report("continuous_over_static_sim", steps_of(StaticBatch{}) / steps_of(Fcfs{}), "ratio");
  simulator();
}
