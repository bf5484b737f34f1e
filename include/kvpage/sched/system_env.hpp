/// \file SystemEnv: what a scheduler asks from outside, as the machine has it: its clock, its random numbers, its heap.
#pragma once

#include <kvpage/base/entropy.hpp>
#include <kvpage/sched/scheduler_env.hpp>

#include <chrono>

KVPAGE_BEGIN_NAMESPACE

/// Derive from it to hear events: `struct MyEnv : SystemEnv { void on_event(const RequestEvent& event); };`
class SystemEnv {
 public:
  SystemEnv() = default;
  /// With rates that were measured: how a scheduler weighs preempting against copying, and what it thinks of deadlines.
  explicit SystemEnv(const StepCosts& costs) noexcept : costs_(costs) {}

  [[nodiscard]] std::int64_t now_ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  [[nodiscard]] std::uint64_t draw_seed() const { return draw_entropy(); }
  [[nodiscard]] std::pmr::memory_resource* memory() const noexcept { return std::pmr::new_delete_resource(); }
  [[nodiscard]] const StepCosts& costs() const noexcept { return costs_; }
  void on_event(const RequestEvent&) const noexcept {}

 private:
  StepCosts costs_;
};
static_assert(SchedulerEnv<SystemEnv>);

KVPAGE_END_NAMESPACE
