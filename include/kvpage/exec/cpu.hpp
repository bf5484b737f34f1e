/// \file Cpu: the caller-owned CPU backend: an instruction set and workers.
#pragma once

#include <kvpage/exec/isa.hpp>
#include <kvpage/exec/thread_pool.hpp>

#include <kvpage/base/types.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE

/// The caller's own threads, used instead of a ThreadPool.
/// `run` must call task(task_context, worker) exactly once for every worker in [0, num_threads), in any threads and any
/// order, and return when all have returned.
struct CpuExecutor {
  void (*run)(void* context, ThreadPool::Task task, void* task_context) = nullptr;
  void* context = nullptr;
  int num_threads = 1;
};

/// How a Cpu works.
struct CpuConfig {
  int num_threads = 0;             ///< workers including the caller; 0 = as many as the machine has
  std::optional<Isa> isa{};        ///< forced path; empty = the widest that this processor runs
  WaitPolicy wait{};
  const CpuExecutor* executor = nullptr;  ///< caller's threads (outliving the Cpu) instead of an own pool
};

/// CPU backend handle: first argument of every CPU kernel.
/// Threads: one caller at a time. A section must not start another one on the same Cpu.
class Cpu {
 public:
  /// Errors: ConfigError when a forced isa is not supported here (naming the missing feature) or num_threads is bad.
  explicit Cpu(const CpuConfig& config = {}) : isa_(choose_isa(config)), num_threads_(choose_threads(config)) {
    if (config.executor != nullptr) {
      executor_ = *config.executor;
    } else {
      pool_ = std::make_unique<ThreadPool>(num_threads_, config.wait);
    }
    ranges_ = std::make_unique<Range[]>(static_cast<std::size_t>(num_threads_));
  }

  int num_threads() const noexcept { return num_threads_; }
  Isa isa() const noexcept { return isa_; }

  /// The entry of a table of kernels (KVPAGE_ISA_TABLE) that this backend runs.
  template <class Function>
  Function select(const IsaTable<Function>& table) const noexcept {
    return table[static_cast<std::size_t>(isa_)];
  }

  /// Calls `fn(part)` once for every part in [0, num_threads), each in a thread of its own unless a worker comes so late
  /// that another one has already done its part. Requires: as parallel_for.
  template <class Fn>
  void parallel(Fn&& fn) {
    parallel_for(num_threads_, 1, [&fn](std::int64_t begin, std::int64_t, int) { fn(static_cast<int>(begin)); });
  }

  /// Calls `fn(begin, end, worker)` on chunks of `grain` items (the last may be smaller) that cover [0, n) once, with
  /// worker in [0, num_threads). A single worker, or a single chunk, is one call fn(0, n, 0).
  /// Every worker first eats its own contiguous part, then helps the others; which worker gets a chunk is not fixed,
  /// so results must not depend on it. A worker that gets no core is not waited for, unless it has begun a chunk.
  /// Requires: n >= 0, grain >= 1; fn neither throws nor starts a section. Cost: no allocation.
  template <class Fn>
  void parallel_for(std::int64_t n, std::int64_t grain, Fn&& fn) {
    if (n <= 0) return;
    KVPAGE_ASSERT(grain >= 1, "a chunk of parallel_for holds at least one item");
    if (num_threads_ == 1 || n <= grain) {
      const FloatEnvironment environment;
      fn(std::int64_t{0}, n, 0);
      return;
    }
    const std::int64_t num_chunks = ceil_div(n, grain);
    for (int w = 0; w < num_threads_; ++w) {
      ranges_[static_cast<std::size_t>(w)].next.store(num_chunks * w / num_threads_, std::memory_order_relaxed);
      ranges_[static_cast<std::size_t>(w)].end = num_chunks * (w + 1) / num_threads_;
    }
    run_section([&](int worker) {
      for (int i = 0; i < num_threads_; ++i) {
        Range& range = ranges_[static_cast<std::size_t>((worker + i) % num_threads_)];
        for (;;) {
          if (range.next.load(std::memory_order_relaxed) >= range.end) break;
          const std::int64_t chunk = range.next.fetch_add(1, std::memory_order_relaxed);
          if (chunk >= range.end) break;
          fn(chunk * grain, std::min(n, (chunk + 1) * grain), worker);
        }
      }
    });
  }

  /// parallel_for with chunks chosen so that every worker gets a few: for items of about equal cost.
  template <class Fn>
  void parallel_for(std::int64_t n, Fn&& fn) {
    constexpr std::int64_t kChunksPerWorker = 4;
    parallel_for(n, std::max<std::int64_t>(1, ceil_div(n, kChunksPerWorker * num_threads_)), fn);
  }

 private:
  struct alignas(64) Range {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  /// Calls fn(worker) in the workers that come; fn returns when no work is left, and does nothing when called again.
  template <class Fn>
  void run_section(Fn&& fn) {
    using Target = std::remove_reference_t<Fn>;
    const ThreadPool::Task task = [](void* context, int worker) { (*static_cast<Target*>(context))(worker); };
    void* context = const_cast<void*>(static_cast<const void*>(std::addressof(fn)));
    if (pool_ != nullptr) {
      pool_->run(task, context);
    } else {
      Adapter adapter{task, context};
      executor_.run(executor_.context, &Adapter::call, &adapter);
    }
  }

  /// Sets the float environment in threads that are not ours.
  struct Adapter {
    ThreadPool::Task task;
    void* context;
    static void call(void* self, int worker) {
      const FloatEnvironment environment;
      const auto* adapter = static_cast<Adapter*>(self);
      adapter->task(adapter->context, worker);
    }
  };

  static Isa choose_isa(const CpuConfig& config) {
    const CpuFeatures features = detect_cpu_features();
    if (!config.isa) return best_isa(features);
    if (const char* missing = missing_feature(*config.isa, features)) {
      throw_config_error(missing, static_cast<std::int64_t>(*config.isa), static_cast<std::int64_t>(best_isa(features)), "isa");
    }
    return *config.isa;
  }

  static int choose_threads(const CpuConfig& config) {
    if (config.executor != nullptr) {
      if (config.executor->run == nullptr) throw_config_error("CpuExecutor needs a run function", 0, 1, "functions");
      if (config.executor->num_threads < 1) {
        throw_config_error("CpuExecutor needs at least one thread", config.executor->num_threads, 1, "threads");
      }
      return config.executor->num_threads;
    }
    if (config.num_threads < 0) throw_config_error("num_threads must not be negative (0 = all)", config.num_threads, 0, "threads");
    return config.num_threads != 0 ? config.num_threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  Isa isa_;
  int num_threads_;
  CpuExecutor executor_{};
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Range[]> ranges_;
};

KVPAGE_END_NAMESPACE
