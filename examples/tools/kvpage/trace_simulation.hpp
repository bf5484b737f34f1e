/// \file Runs of the scheduler's simulator for the verbs simulate and shrink: what fails, and the shortest list of actions that does.
#pragma once

#include "tools/simulator/sim_shrink.hpp"
#include "tools/simulator/sim_trace.hpp"

#include <kvpage/base/assert.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kvpage::cli {

/// How a run went. A broken invariant of the library counts as a broken rule; there is no report then.
struct SimOutcome {
  std::string rule{};  ///< that was broken; empty = none
  std::int64_t request = -1;
  SimReport report{};
  [[nodiscard]] bool failed() const noexcept { return !rule.empty(); }
};

/// Thrown instead of the abort of a broken invariant.
struct BrokenInvariant : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// While one lives, broken invariants throw BrokenInvariant.
class ThrowingAsserts {
 public:
  ThrowingAsserts() : before_(set_assert_handler([](const AssertInfo& info) { throw BrokenInvariant(info.message); })) {}
  ~ThrowingAsserts() { set_assert_handler(before_); }
  ThrowingAsserts(const ThrowingAsserts&) = delete;
  ThrowingAsserts& operator=(const ThrowingAsserts&) = delete;

 private:
  AssertHandler before_;
};

/// What `run` reports, or the invariant that it broke.
template <class Run>
SimOutcome sim_outcome(Run&& run) {
  const ThrowingAsserts asserts;
  try {
    SimOutcome outcome{.report = run()};
    if (outcome.report.violation != nullptr) outcome.rule = outcome.report.violation, outcome.request = outcome.report.violation_id;
    return outcome;
  } catch (const BrokenInvariant& broken) {
    return {.rule = broken.what()};
  }
}

/// A failing trace without everything that it does not need.
struct ShrunkTrace {
  SimTrace trace;
  SimOutcome outcome;
  std::int64_t num_runs = 0;
};

/// The shortest part of a trace that breaks the same rule; nothing if the trace breaks none. `replay` runs actions in a world, as
/// kvpage::replay does.
template <class Replay>
std::optional<ShrunkTrace> shrink_failure(const SimTrace& trace, Replay&& replay) {
  const SimConfig world = draw_sim_config(trace.seed);
  ShrunkTrace shrunk{.trace = {.seed = trace.seed, .actions = {}}, .outcome = {}};
  const auto outcome_of = [&](const std::vector<SimAction>& actions) {
    ++shrunk.num_runs;
    return sim_outcome([&] { return replay(world, actions); });
  };
  const std::string rule = outcome_of(trace.actions).rule;
  if (rule.empty()) return std::nullopt;
  shrunk.trace.actions = shrink(trace.actions, [&](const std::vector<SimAction>& part) { return outcome_of(part).rule == rule; });
  shrunk.outcome = outcome_of(shrunk.trace.actions);
  return shrunk;
}

}  // namespace kvpage::cli
