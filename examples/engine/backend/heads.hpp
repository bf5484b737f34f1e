/// \file HeadsArgs: how a layer's input becomes rotated queries, and keys and values in their pages.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/kernels/append_kv/args.hpp>
#include <kvpage/kernels/gemm/cpu_packed_args.hpp>
#include <kvpage/kernels/rms_norm/args.hpp>
#include <kvpage/kernels/rope/args.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace kvpage::engine {

/// What parts of project_heads took. Threads: workers add at the same time.
struct HeadTimes {
  std::atomic<std::int64_t> norm_ns{0}, rope_ns{0}, append_ns{0};
};

/// The order of weights and outputs.
enum HeadMatrix : std::size_t { kQueries, kKeys, kValues };

/// out = weight * input + bias for queries, keys and values; then norms of heads, rotations and the append, each with the args of its
/// kernel.
template <class Weight, KVStorage KV>
struct HeadsArgs {
  std::array<const Weight*, 3> weights{};
  std::array<GemmOutput, 3> outputs{};
  std::array<RmsNormArgs, 2> norms{};  ///< of queries and keys, in place; one without rows is left out
  std::array<RopeArgs, 2> ropes{};     ///< of queries and keys
  AppendKvArgs<KV> append{};
  HeadTimes* times = nullptr;          ///< or null
};

/// Adds the time from its making to its end to `sum_ns` unless that is null.
class PartTimer {
 public:
  explicit PartTimer(std::atomic<std::int64_t>* sum_ns) : sum_ns_(sum_ns) {
    if (sum_ns_ != nullptr) begin_ = Clock::now();
  }
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;
  ~PartTimer() {
    if (sum_ns_ != nullptr) *sum_ns_ += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<std::int64_t>* sum_ns_;
  Clock::time_point begin_{};
};

/// One launch after the other, for any backend.
template <class B, KVStorage KV>
Status project_heads_apart(B& backend, const typename B::Input& input, const HeadsArgs<typename B::Weight, KV>& args) {
  for (std::size_t m = 0; m < args.weights.size(); ++m) {
    const GemmOutput& to = args.outputs[m];
    if (const Status done = backend.matmul(*args.weights[m], input, to.bias, to.out, to.out_stride, to.accumulate); !done.ok()) return done;
  }
  HeadTimes* times = args.times;
  for (const RmsNormArgs& norm : args.norms) {
    if (norm.num_rows == 0) continue;
    const PartTimer timer(times != nullptr ? &times->norm_ns : nullptr);
    if (const Status done = backend.rms_norm(norm); !done.ok()) return done;
  }
  for (const RopeArgs& rope : args.ropes) {
    const PartTimer timer(times != nullptr ? &times->rope_ns : nullptr);
    if (const Status done = backend.rope(rope); !done.ok()) return done;
  }
  const PartTimer timer(times != nullptr ? &times->append_ns : nullptr);
  return backend.append_kv(args.append);
}

}  // namespace kvpage::engine
