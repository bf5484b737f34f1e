/// \file What an engine asks from outside: a clock, seeds, memory.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory_resource>
#include <random>

namespace kvpage::engine {

/// - `now_ns()`: a clock that does not go back.
/// - `draw_seed()`: a seed for a request that brings none.
/// - `memory()`: records of requests come from it, in `submit` only. It outlives the engine.
template <class E>
concept EngineEnv = requires(E& env) {
  { env.now_ns() } -> std::convertible_to<std::int64_t>;
  { env.draw_seed() } -> std::convertible_to<std::uint64_t>;
  { env.memory() } -> std::convertible_to<std::pmr::memory_resource*>;
};

/// The machine's clock and its random numbers.
class SystemEnv {
 public:
  std::int64_t now_ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  std::uint64_t draw_seed() { return std::uint64_t{device_()} << 32 | device_(); }
  std::pmr::memory_resource* memory() const { return std::pmr::new_delete_resource(); }

 private:
  std::random_device device_;
};
static_assert(EngineEnv<SystemEnv>);

}  // namespace kvpage::engine
