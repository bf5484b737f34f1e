/// \file The verbs over the simulator: seeds, kept runs, and failures that shrink to what matters.
#include "cli/program.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"
#include "tools/kvpage/trace_simulation.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

/// A world in which a preemption wipes the memory of the pool: the tokens of whoever goes on are wrong.
SimReport replay_with_fault(const SimConfig& world, const std::vector<SimAction>& actions) {
  Simulation simulation{world};
  for (const SimAction& action : actions) {
    simulation.act(action);
    if (action.kind != SimKind::kPreempt) continue;
    for (std::int64_t b = 0; b < world.pool.num_blocks; ++b) simulation.world().model.poison(BlockId{static_cast<std::uint32_t>(b)});
  }
  return simulation.finish();
}

std::int64_t count(const std::vector<SimAction>& actions, SimKind kind) {
  return std::count_if(actions.begin(), actions.end(), [&](const SimAction& action) { return action.kind == kind; });
}

}  // namespace

TEST_CASE("trace.shrink.a_planted_fault_shrinks_to_what_matters", "[trace]") {
  int shrunk_seeds = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    SimTrace trace{.seed = seed, .actions = {}};
    REQUIRE(simulate(draw_sim_config(seed), &trace.actions).violation == nullptr);
    CHECK_FALSE(cli::shrink_failure(trace, [](const SimConfig& world, const std::vector<SimAction>& actions) {
      return replay(world, actions);
    }));
    const auto shrunk = cli::shrink_failure(trace, replay_with_fault);
    if (!shrunk) continue;  // a world without preemptions
    ++shrunk_seeds;
    const std::vector<SimAction>& left = shrunk->trace.actions;
    CHECK(left.size() <= 8);
    CHECK(left.size() * 20 < trace.actions.size());
    CHECK(count(left, SimKind::kPreempt) == 1);
    CHECK(count(left, SimKind::kSubmit) >= 1);
    CHECK(shrunk->outcome.failed());
    CHECK(shrunk->outcome.rule == replay_with_fault(draw_sim_config(seed), left).violation);
    CHECK(shrunk->outcome.request >= 0);
    CHECK(shrunk->num_runs > std::ssize(left));
  }
  CHECK(shrunk_seeds >= 3);
}

TEST_CASE("trace.shrink.a_broken_invariant_is_a_failure_too", "[trace]") {
  const auto broken = [](const SimConfig& world, const std::vector<SimAction>& actions) {
    if (count(actions, SimKind::kSubmit) >= 3) detail::assert_failed({"x", "fewer than three", "f.hpp", 1});
    return replay(world, actions);
  };
  SimTrace trace{.seed = 4, .actions = {}};
  static_cast<void>(simulate(draw_sim_config(trace.seed), &trace.actions));
  const auto shrunk = cli::shrink_failure(trace, broken);
  REQUIRE(shrunk.has_value());
  CHECK(shrunk->outcome.rule == "fewer than three");
  CHECK(shrunk->trace.actions.size() == 3);
}

TEST_CASE("trace.simulate.seeds_and_kept_runs_are_programs", "[trace]") {
  const TempDir dir;
  const std::string kept = dir / "run.sim";
  const Outcome seed = run_kvpage({"trace", "simulate", "--seed", "5", "--out", kept});
  INFO(seed.err);
  REQUIRE(seed.exit_code == 0);
  std::vector<SimAction> actions;
  const SimReport report = simulate(draw_sim_config(5), &actions);
  CHECK(contains(seed.out, "seed 5: " + std::to_string(actions.size()) + " actions"));
  CHECK(contains(seed.out, std::to_string(report.sealed_steps) + ", " + std::to_string(report.stats.aborted_steps) + " of them aborted"));
  CHECK(contains(seed.out, std::to_string(report.finished) + "\n"));
  const std::string text = read_text(kept);
  CHECK(text.rfind(to_text({5, actions}), 0) == 0);
  const Outcome again = run_kvpage({"trace", "simulate", "--from", kept});
  CHECK(again.exit_code == 0);
  CHECK(contains(again.out, "as kept"));
  CHECK(contains(run_kvpage({"trace", "simulate", "--seed", "1", "--count", "20"}).out, "seeds 1 to 20"));
  const auto fails = [&](const std::vector<std::string>& arguments, int exit_code, const std::string& part) {
    const Outcome failed = run_kvpage(arguments);
    INFO(failed.err);
    CHECK(failed.exit_code == exit_code);
    CHECK(contains(failed.err, part));
  };
  fails({"trace", "shrink", kept}, 1, "breaks no rule, so there is nothing to shrink");
  fails({"trace", "shrink", dir / "none.sim"}, 3, "none.sim");
  fails({"trace", "simulate", "--from", kept, "--seed", "1"}, 2, "--seed");
  fails({"trace", "simulate", "--from", kept, "--out", kept}, 2, "would overwrite");
  fails({"trace", "simulate", "--count", "0"}, 2, "--count");
  const std::size_t mark = text.find("# digest "), cut = text.rfind('\n', mark - 2) + 1;
  write_text(kept, text.substr(0, text.find("submit")) + text.substr(text.find('\n', text.find("submit")) + 1));  // one request fewer
  fails({"trace", "simulate", "--from", kept}, 1, "the kept one had " + text.substr(mark + 9, 16));
  write_text(kept, text.substr(0, cut) + "dance 1 2\n");
  fails({"trace", "simulate", "--from", kept}, 3, "run.sim:" + std::to_string(actions.size() + 1) + ": an action is");
  for (const char* verb : {"simulate", "shrink"}) CHECK(contains(run_kvpage({"trace", verb, "--help"}).out, "Example:"));
}
