/// \file StepMeter: counts and times the launches of steps; while nobody asks for times, a launch costs one branch more.
#pragma once

#include "engine/backend/step_profile.hpp"
#include "engine/backend/step_stats.hpp"

#include <kvpage/base/error.hpp>
#include <kvpage/sched/batch_plan.hpp>

#include <chrono>
#include <cstdint>

namespace kvpage::engine {

/// Stats of the newest step, and the profile that steps add to. Time outside of launches, between two steps, is the caller's.
class StepMeter {
 public:
  StepStats& stats() noexcept { return stats_; }
  const StepStats& stats() const noexcept { return stats_; }
  /// The step that runs. Requires: between begin_step and end_forward.
  const BatchPlan& plan() const noexcept { return *plan_; }

  /// Collects times from the next step on; null = off. What was collected before is complete once this returns.
  void profile_into(StepProfile* profile) noexcept {
    if (phase_ != nullptr) phase_->total_ns += last_ns_ - step_begin_ns_;
    profile_ = profile;
    phase_ = nullptr;
  }

  void begin_step(const BatchPlan& plan) noexcept {
    plan_ = &plan;
    stats_ = {.rows = plan.num_tokens()};
    if (profile_ == nullptr) return;
    const std::int64_t now = now_ns();
    if (phase_ != nullptr) {
      add(StepOperation::kCaller, now - last_ns_, {});
      phase_->total_ns += now - step_begin_ns_;
    }
    phase_ = plan.num_tokens() > plan.num_seqs() ? &profile_->prefill : &profile_->decode;
    ++phase_->steps, phase_->rows += plan.num_tokens();
    step_begin_ns_ = last_ns_ = now;
    is_outside_ = false;
  }

  /// The forward pass is over: what is launched from here on is launched by the caller.
  void end_forward() noexcept { is_outside_ = true, plan_ = nullptr; }

  /// Calls launch(); `cost()` says what it had to do. Returns what launch returns.
  template <class Launch, class Cost>
  Status time(StepOperation operation, const Launch& launch, const Cost& cost) {
    if (profile_ == nullptr) return launch();
    const std::int64_t begin = now_ns();
    // What the caller did since the last launch of a step, such as looking at its logits, is not the model's time.
    if (phase_ != nullptr && is_outside_) add(StepOperation::kCaller, begin - last_ns_, {});
    const Status status = launch();
    last_ns_ = now_ns();
    if (phase_ != nullptr) add(operation, last_ns_ - begin, cost());
    return status;
  }

  bool takes_times() const noexcept { return profile_ != nullptr; }

  /// `time_ns` of what `launch` took was for another operation, which it did besides.
  void split(StepOperation launch, StepOperation part, std::int64_t time_ns, const OperationCost& cost) noexcept {
    if (phase_ == nullptr) return;
    (*phase_)[launch].time_ns -= time_ns;
    add(part, time_ns, cost);
  }

 private:
  static std::int64_t now_ns() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  void add(StepOperation operation, std::int64_t time_ns, const OperationCost& cost) noexcept {
    OperationProfile& sum = (*phase_)[operation];
    ++sum.launches, sum.time_ns += time_ns, sum.cost += cost;
  }

  StepStats stats_;
  const BatchPlan* plan_ = nullptr;
  StepProfile* profile_ = nullptr;
  PhaseProfile* phase_ = nullptr;  // of the step that runs or ran last
  std::int64_t step_begin_ns_ = 0;
  std::int64_t last_ns_ = 0;       // end of the last launch
  bool is_outside_ = false;
};

}  // namespace kvpage::engine
