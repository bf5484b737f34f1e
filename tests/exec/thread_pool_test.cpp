#include "support/catch.hpp"

#include <kvpage/exec/thread_pool.hpp>

#include <sys/resource.h>

#include <chrono>
#include <set>

namespace {
using kvpage::ThreadPool;

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void count_worker(void* counts, int worker) { static_cast<std::atomic<int>*>(counts)[worker].fetch_add(1); }
}  // namespace

TEST_CASE("exec.thread_pool.every_worker_runs_every_section_once", "[exec]") {
  for (const int num_threads : {1, 2, 3, 5}) {
    ThreadPool pool(num_threads);
    REQUIRE(pool.num_threads() == num_threads);
    std::atomic<int> counts[5] = {};
    for (int section = 1; section <= 1000; ++section) {
      pool.run(&count_worker, counts);
      for (int worker = 0; worker < num_threads; ++worker) REQUIRE(counts[worker].load() == section);
    }
  }
}

TEST_CASE("exec.thread_pool.a_hundred_thousand_empty_sections_end", "[exec]") {
  ThreadPool pool(2);
  std::atomic<int> counts[2] = {};
  for (int section = 0; section < 100'000; ++section) pool.run(&count_worker, counts);
  REQUIRE(counts[0].load() == 100'000);
  REQUIRE(counts[1].load() == 100'000);
}

TEST_CASE("exec.thread_pool.parked_workers_wake_up", "[exec]") {
  ThreadPool pool(3, {.spin_pauses = 0});
  std::atomic<int> counts[3] = {};
  for (int section = 1; section <= 20; ++section) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run(&count_worker, counts);
    REQUIRE(counts[2].load() == section);
  }
}

TEST_CASE("exec.thread_pool.idle_workers_use_no_cpu_time", "[exec]") {
  ThreadPool pool(8);
  std::atomic<int> counts[8] = {};
  pool.run(&count_worker, counts);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  // Seven workers spinning for half a second would use as much as the machine has: at least half a second on one core.
  REQUIRE(process_cpu_seconds() - before < 0.1);
}

TEST_CASE("exec.thread_pool.pools_live_and_die_beside_each_other", "[exec]") {
  for (int round = 0; round < 50; ++round) {
    ThreadPool first(2);
    ThreadPool second(3);
    std::atomic<int> counts[3] = {};
    first.run(&count_worker, counts);
    second.run(&count_worker, counts);
    REQUIRE(counts[0].load() + counts[1].load() + counts[2].load() == 5);
  }
}

TEST_CASE("exec.thread_pool.sections_see_what_the_caller_wrote_before", "[exec]") {
  ThreadPool pool(4);
  struct Shared {
    std::int64_t plain = 0;
    std::int64_t seen[4] = {};
  } shared;
  for (std::int64_t section = 0; section < 5000; ++section) {
    shared.plain = section;
    const auto copy = [](void* context, int worker) {
      auto* both = static_cast<Shared*>(context);
      both->seen[worker] = both->plain;
    };
    pool.run(copy, &shared);
    for (const std::int64_t seen : shared.seen) REQUIRE(seen == section);
  }
}

TEST_CASE("exec.thread_pool.bad_configurations_are_refused", "[exec]") {
  REQUIRE_THROWS_AS(ThreadPool(0), kvpage::ConfigError);
  REQUIRE_THROWS_AS(ThreadPool(-3), kvpage::ConfigError);
  REQUIRE_THROWS_AS(ThreadPool(ThreadPool::kMaxThreads + 1), kvpage::ConfigError);
  REQUIRE_THROWS_AS(ThreadPool(1, {.spin_pauses = -1}), kvpage::ConfigError);
}
