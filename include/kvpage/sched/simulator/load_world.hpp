/// \file LoadWorld: an allocator and a scheduler on a virtual clock, for simulate_load.
#pragma once

#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/sched/continuous_scheduler.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The environment of a simulated load: a clock that the simulation sets, and the events of the last step.
struct LoadEnv {
  std::int64_t time_ns = 0;
  std::vector<RequestEvent> events{};
  StepCosts step_costs{};
  [[nodiscard]] std::int64_t now_ns() const noexcept { return time_ns; }
  [[nodiscard]] std::uint64_t draw_seed() const noexcept { return 0; }
  [[nodiscard]] std::pmr::memory_resource* memory() const noexcept { return std::pmr::get_default_resource(); }
  [[nodiscard]] StepCosts costs() const noexcept { return step_costs; }
  void on_event(const RequestEvent& event) { events.push_back(event); }
};

/// The production allocator and scheduler, side by side. Errors: ConfigError.
template <class Policies>
struct LoadWorld {
  using Cache = BlockAllocator<>;

  LoadWorld(const BlockAllocatorConfig& pool, const SchedulerConfig& limits, const Policies& policies = {}, const StepCosts& costs = {})
      : env{.step_costs = costs},
        memory(Cache::required_bytes(pool, options())),
        cache(pool, memory, options()),
        scheduler(limits, cache, policies, env) {}

  [[nodiscard]] static Cache::IndexOptions options() { return Cache::IndexOptions{SipSecret::fixed(1, 2)}; }

  LoadEnv env;
  std::vector<std::byte> memory;
  Cache cache;
  ContinuousScheduler<Cache, Policies, LoadEnv> scheduler;
};

KVPAGE_END_NAMESPACE
