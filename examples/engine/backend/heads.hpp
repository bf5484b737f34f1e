/// \file HeadsArgs: how a layer's input becomes rotated queries, and keys and values in their pages.
#pragma once

#include "engine/backend/matrix_args.hpp"

#include <kvpage/kernels/append_kv/args.hpp>
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

/// The order of the products.
enum HeadMatrix : std::size_t { kQueries, kKeys, kValues };

/// Queries, keys and values of one input; then norms of heads, rotations and the append, each with the args of its kernel.
template <class Weight, class Input, KVStorage KV>
struct HeadsArgs {
  std::array<MatmulArgs<Weight, Input>, 3> products{};  ///< in the order of HeadMatrix, all of one input
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

}  // namespace kvpage::engine
