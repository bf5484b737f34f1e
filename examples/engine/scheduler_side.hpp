/// \file SchedulerSide: what the scheduler of an engine sees of the world.
#pragma once

#include "engine/engine_env.hpp"

#include <kvpage/sched/batch_plan.hpp>
#include <kvpage/sched/request.hpp>
#include <kvpage/sched/scheduler_env.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvpage::engine {

/// The environment of the scheduler: the engine's, the costs that were measured, and a list of events.
template <EngineEnv Env>
struct SchedulerSide {
  Env* env;
  StepCosts measured{};
  std::vector<RequestEvent> events{};
  std::int64_t open_answers = 0;  ///< that will have a last event

  std::int64_t now_ns() { return env->now_ns(); }
  std::uint64_t draw_seed() { return env->draw_seed(); }
  std::pmr::memory_resource* memory() { return env->memory(); }
  StepCosts costs() const { return measured; }
  void on_event(const RequestEvent& event) {
    events.push_back(event);
    if (event.finish != FinishReason::kNone) --open_answers;
  }

  /// Takes the memory of the events of `more` answers: a token and an end of each may wait to be delivered.
  void make_room(std::int64_t more) {
    const auto room = static_cast<std::size_t>(2 * (open_answers + more)) + events.size();
    if (events.capacity() < room) events.reserve(2 * room);
  }

  /// Moving averages: of a row in steps with chunks, of a step of one answer alone, of a page that is copied.
  void learn_step(const BatchPlan& plan, std::int64_t duration_ns) {
    const std::int64_t rows = plan.num_tokens();
    if (rows == 0) return;
    if (rows == 1) {
      approach(measured.decode_ns_per_token, duration_ns);
    } else if (rows >= kChunkRows) {
      approach(measured.prefill_ns_per_token, duration_ns / rows);
    }
  }
  void learn_transfers(const BatchPlan& plan, std::int64_t duration_ns) {
    const auto pages = std::ssize(plan.demotions) + std::ssize(plan.promotions);
    if (pages > 0) approach(measured.copy_ns_per_block, duration_ns / pages);
  }

 private:
  static constexpr std::int64_t kChunkRows = 32;

  static void approach(std::int64_t& average, std::int64_t value) {
    average = std::max<std::int64_t>(1, average == 0 ? value : average + (value - average) / 8);
  }
};

}  // namespace kvpage::engine
