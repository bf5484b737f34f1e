#include "support/catch.hpp"

#include <kvpage/exec/cpu.hpp>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <random>
#include <vector>

namespace {
using kvpage::Cpu;
using kvpage::ThreadPool;

/// Threads beside the pool that never sleep.
class BusyLoops {
 public:
  explicit BusyLoops(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyLoops() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// What one section's workers may touch until run() returns. Plain fields: the thread sanitizer sees every late access.
struct Canary {
  bool dead = false;
  std::atomic<int>* num_late = nullptr;

  static void visit(void* self, int) {
    const volatile Canary& canary = *static_cast<Canary*>(self);
    for (int i = 0; i < 1000; ++i) {  // long enough for other workers to come
      if (canary.dead) ++*canary.num_late;
    }
  }
};

int gate_pipe[2];
std::atomic<bool> is_held{false};

/// Keeps the thread that gets the signal until a byte comes through the pipe.
void hold_thread(int) {
  is_held = true;
  char byte = 0;
  while (read(gate_pipe[0], &byte, 1) != 1) {
  }
}

/// The thread behind worker 1.
pthread_t second_worker(ThreadPool& pool) {
  struct Meeting {
    std::atomic<bool> came{false};
    pthread_t thread{};
  } meeting;
  const auto meet = [](void* self, int worker) {
    auto& here = *static_cast<Meeting*>(self);
    if (worker == 1) {
      here.thread = pthread_self();
      here.came = true;
    }
    while (!here.came) std::this_thread::yield();
  };
  pool.run(meet, &meeting);
  return meeting.thread;
}
}  // namespace

TEST_CASE("exec.late_worker.a_worker_without_a_core_is_not_waited_for", "[exec]") {
  REQUIRE(pipe(gate_pipe) == 0);
  struct sigaction action {};
  action.sa_handler = &hold_thread;
  REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
  ThreadPool pool(2);
  const pthread_t worker = second_worker(pool);
  is_held = false;
  REQUIRE(pthread_kill(worker, SIGUSR1) == 0);
  while (!is_held) std::this_thread::yield();
  int sections = 0;
  const auto count = [](void* counter, int index) { *static_cast<int*>(counter) += index == 0 ? 1 : 1000; };
  for (int i = 0; i < 100; ++i) pool.run(count, &sections);  // would never return if it waited
  REQUIRE(sections == 100);
  REQUIRE(write(gate_pipe[1], "", 1) == 1);
  REQUIRE(pthread_equal(second_worker(pool), worker) != 0);  // and it comes again
}

TEST_CASE("exec.late_worker.never_touches_a_section_that_has_returned", "[exec]") {
  for (const int num_loops : {0, 2}) {
    const BusyLoops busy(num_loops);
    for (const int num_threads : {2, 3, 5}) {
      ThreadPool pool(num_threads);
      std::atomic<int> num_late{0};
      std::vector<Canary> canaries(20'000, Canary{false, &num_late});
      for (Canary& canary : canaries) {
        pool.run(&Canary::visit, &canary);
        canary.dead = true;
      }
      CAPTURE(num_loops, num_threads);
      REQUIRE(num_late.load() == 0);
    }
  }
}

TEST_CASE("exec.late_worker.every_item_once_on_a_busy_machine", "[exec]") {
  const unsigned seed = 20261129;
  CAPTURE(seed);
  std::mt19937 rng(seed);
  const BusyLoops busy(2);
  for (const int num_threads : {2, 3, 5}) {
    Cpu cpu({.num_threads = num_threads});
    int num_wrong = 0;
    for (int section = 0; section < 34'000; ++section) {
      const std::int64_t n = rng() % 65;
      const std::int64_t grain = 1 + rng() % 4;
      std::vector<int> counts(static_cast<std::size_t>(n), 0);  // plain and freed at once: a late write is a data race
      cpu.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) ++counts[static_cast<std::size_t>(i)];
      });
      if (counts != std::vector<int>(static_cast<std::size_t>(n), 1)) ++num_wrong;
    }
    CAPTURE(num_threads);
    REQUIRE(num_wrong == 0);
  }
}
