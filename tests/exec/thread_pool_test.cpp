#include "support/catch.hpp"

#include <kvpage/exec/thread_pool.hpp>

#include <sys/resource.h>

#include <chrono>

namespace {
using kvpage::ThreadPool;

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void count_worker(void* counts, int worker) { static_cast<std::atomic<int>*>(counts)[worker].fetch_add(1); }

/// A section that ends only when every worker has come, each seeing what the caller wrote before.
struct Assembly {
  explicit Assembly(int num_workers) : num_missing(num_workers) {}

  int number = 0;
  std::atomic<int> num_missing;
  std::atomic<int> num_wrong{0};
  int last_seen[8] = {};

  void hold(ThreadPool& pool, int section) {
    number = section;
    num_missing = pool.num_threads();
    pool.run(&Assembly::attend, this);
  }
  static void attend(void* self, int worker) {
    auto& assembly = *static_cast<Assembly*>(self);
    int& last = assembly.last_seen[worker];
    if (last == assembly.number) return;  // called a second time
    if (last != assembly.number - 1) ++assembly.num_wrong;
    last = assembly.number;
    --assembly.num_missing;
    while (assembly.num_missing.load() != 0) std::this_thread::yield();
  }
};
}  // namespace

TEST_CASE("exec.thread_pool.the_caller_runs_every_section_once", "[exec]") {
  for (const int num_threads : {1, 2, 3, 5}) {
    ThreadPool pool(num_threads);
    REQUIRE(pool.num_threads() == num_threads);
    std::atomic<int> counts[5] = {};
    for (int section = 1; section <= 20'000; ++section) {
      pool.run(&count_worker, counts);
      REQUIRE(counts[0].load() == section);
    }
  }
}

TEST_CASE("exec.thread_pool.every_worker_comes_and_sees_what_the_caller_wrote", "[exec]") {
  for (const int num_threads : {1, 2, 3, 5}) {
    ThreadPool pool(num_threads);
    Assembly assembly(num_threads);
    for (int section = 1; section <= 200; ++section) assembly.hold(pool, section);
    REQUIRE(assembly.num_wrong.load() == 0);
  }
}

TEST_CASE("exec.thread_pool.a_worker_that_entered_is_waited_for", "[exec]") {
  struct Visit {
    std::atomic<bool> entered{false};
    std::atomic<bool> left{false};
  };
  const auto visit = [](void* self, int worker) {
    auto& section = *static_cast<Visit*>(self);
    if (worker == 0) {
      while (!section.entered) std::this_thread::yield();
    } else if (!section.entered.exchange(true)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // past the spinning of the caller
      section.left = true;
    }
  };
  for (const int spin_pauses : {0, 100, 1'000'000}) {
    ThreadPool pool(2, {.spin_pauses = spin_pauses});
    for (int round = 0; round < 20; ++round) {
      Visit section;
      pool.run(visit, &section);
      REQUIRE(section.left.load());
    }
  }
}

TEST_CASE("exec.thread_pool.parked_workers_wake_up", "[exec]") {
  ThreadPool pool(3, {.spin_pauses = 0});
  Assembly assembly(3);
  for (int section = 1; section <= 20; ++section) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    assembly.hold(pool, section);
  }
  REQUIRE(assembly.num_wrong.load() == 0);
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
    REQUIRE(counts[0].load() == 2);
  }
}

TEST_CASE("exec.thread_pool.bad_configurations_are_refused", "[exec]") {
  REQUIRE_THROWS_AS(ThreadPool(0), kvpage::ConfigError);
  REQUIRE_THROWS_AS(ThreadPool(-3), kvpage::ConfigError);
  REQUIRE_THROWS_AS(ThreadPool(ThreadPool::kMaxThreads + 1), kvpage::ConfigError);
  REQUIRE_THROWS_AS(ThreadPool(1, {.spin_pauses = -1}), kvpage::ConfigError);
}
