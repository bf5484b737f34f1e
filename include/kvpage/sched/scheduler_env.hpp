/// \file SchedulerEnv: everything from outside that a scheduler asks for: time, seeds, memory, costs, and who hears its events.
#pragma once

#include <kvpage/sched/request.hpp>

#include <concepts>
#include <memory_resource>

KVPAGE_BEGIN_NAMESPACE

/// Rates from which preemptions, loads from the host tier and deadlines are judged.
struct StepCosts {
  std::int64_t prefill_ns_per_token = 100'000;
  std::int64_t decode_ns_per_token = 0;     ///< of one answer; 0 = unknown, deadlines are judged by the prompt alone
  std::int64_t copy_ns_per_block = 100'000;  ///< one page between pool and host tier
};

/// - `now_ns()`: a clock; steps back are read as standing still.
/// - `draw_seed()`: a seed for a request that brings none.
/// - `memory()`: request records come from it, in `submit` only. It outlives the scheduler.
/// - `costs()`: estimates; they change speed, never text.
/// - `on_event(event)`: called from submit, cancel, plan, commit and abort; it must not call the scheduler.
template <class E>
concept SchedulerEnv = requires(E& env, const RequestEvent& event) {
  { env.now_ns() } -> std::convertible_to<std::int64_t>;
  { env.draw_seed() } -> std::convertible_to<std::uint64_t>;
  { env.memory() } -> std::convertible_to<std::pmr::memory_resource*>;
  { env.costs() } -> std::convertible_to<StepCosts>;
  env.on_event(event);
};

KVPAGE_END_NAMESPACE
