/// \file ThreadPool: helpers of a caller that never waits for one that has not come; idle costs no CPU time.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/exec/float_environment.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

KVPAGE_BEGIN_NAMESPACE

/// How a worker waits: `spin_pauses` pause instructions, then it sleeps in the kernel until it is woken.
/// The bound is what keeps a machine usable when other programs want the cores: a spinning thread holds the very slice
/// that the preempted peer needs.
struct WaitPolicy {
  int spin_pauses = 1500;
};

/// Runs one task at a time on up to `num_threads` workers, of which the caller is worker 0.
/// On a busy machine a worker may get no core for milliseconds. The caller therefore waits only for workers that have
/// entered its section, not for those still on their way: these find the section closed and never touch its context.
/// Threads: one caller at a time. A task must neither throw (std::terminate) nor call run() of the same pool.
class ThreadPool {
 public:
  /// Task of one section: takes shares of the section's work until none is left, then returns.
  using Task = void (*)(void* context, int worker);

  static constexpr int kMaxThreads = 1024;

  /// Errors: ConfigError when num_threads is outside [1, kMaxThreads] or spin_pauses is negative.
  explicit ThreadPool(int num_threads, WaitPolicy wait = {}) : num_threads_(num_threads), wait_(wait) {
    // With more workers than cores a spinning worker only keeps another one from its work.
    const unsigned cores = std::thread::hardware_concurrency();
    if (cores != 0 && num_threads > static_cast<int>(cores)) wait_.spin_pauses = 0;
    if (num_threads < 1) throw_config_error("ThreadPool needs at least one thread", num_threads, 1, "threads");
    if (num_threads > kMaxThreads) throw_config_error("ThreadPool has an upper limit of threads", num_threads, kMaxThreads, "threads");
    if (wait.spin_pauses < 0) throw_config_error("spin_pauses must not be negative", wait.spin_pauses, 0, "pauses");
    threads_.reserve(static_cast<std::size_t>(num_threads - 1));
    // Not try/catch: programs without exceptions include this header too.
    struct StopUnlessStarted {
      ThreadPool* pool;
      ~StopUnlessStarted() {
        if (pool != nullptr) pool->stop();
      }
    } guard{this};
    for (int worker = 1; worker < num_threads; ++worker) threads_.emplace_back([this, worker] { work(worker); });
    guard.pool = nullptr;
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { stop(); }

  int num_threads() const noexcept { return num_threads_; }

  /// Calls `task(context, 0)` once, here. Every other worker that comes before that call returns calls
  /// `task(context, worker)` too, now and then a second time. Returns when no call is running.
  /// Ensures: no access to `context` after the return.
  /// Cost: no allocation; about a microsecond when the workers still spin.
  void run(Task task, void* context) noexcept {
    KVPAGE_ASSERT(!running_.exchange(true, std::memory_order_relaxed), "one section of a ThreadPool runs at a time, never nested");
    if (num_threads_ > 1) open(task, context);
    {
      const FloatEnvironment environment;
      task(context, 0);
    }
    if (num_threads_ > 1) close();
#if KVPAGE_ASSERT_LEVEL >= 1
    running_.store(false, std::memory_order_relaxed);
#endif
  }

 private:
  /// Bit of gate_ that lets workers in; the bits below count those inside.
  static constexpr int kOpen = 1 << 16;

  void open(Task task, void* context) noexcept {
    task_ = task;  // nobody is inside, so nobody reads these
    context_ = context;
    gate_.store(kOpen, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }

  void close() noexcept {
    int inside = gate_.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
    while (inside != 0) inside = await_change(gate_, inside);
  }

  /// Enters the section that is open, whichever it is; false when none is.
  bool try_enter() noexcept {
    int gate = gate_.load(std::memory_order_relaxed);
    while ((gate & kOpen) != 0) {
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  void leave() noexcept {
    if (gate_.fetch_sub(1, std::memory_order_release) == 1) gate_.notify_one();  // closed, and the last: the caller may sleep
  }

  /// Waits until `value` differs from `old`; returns what it became.
  int await_change(const std::atomic<int>& value, int old) const noexcept {
    for (int i = 0; i < wait_.spin_pauses; ++i) {
      if (const int now = value.load(std::memory_order_acquire); now != old) return now;
      pause();
    }
    value.wait(old, std::memory_order_acquire);
    return value.load(std::memory_order_acquire);
  }

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void work(int worker) noexcept {
    const FloatEnvironment environment;
    for (int seen = 0;;) {
      seen = await_change(generation_, seen);
      if (stopping_.load(std::memory_order_relaxed)) return;
      if (!try_enter()) continue;
      task_(context_, worker);
      leave();
    }
  }

  void stop() noexcept {
    stopping_.store(true, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // What a worker reads to enter is one cache line; what only the caller uses is another.
  alignas(64) std::atomic<int> generation_{0};  // changes when a section has opened: what idle workers watch
  std::atomic<int> gate_{0};
  std::atomic<bool> stopping_{false};
  Task task_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<bool> running_{false};
  int num_threads_;
  WaitPolicy wait_;
  std::vector<std::thread> threads_;
};

KVPAGE_END_NAMESPACE
