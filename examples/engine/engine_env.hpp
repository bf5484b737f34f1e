/// \file What an engine asks from outside: a clock, seeds, memory.
#pragma once

#include <kvpage/sched/system_env.hpp>

#include <concepts>
#include <cstdint>
#include <memory_resource>

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

using kvpage::SystemEnv;
static_assert(EngineEnv<SystemEnv>);

}  // namespace kvpage::engine
