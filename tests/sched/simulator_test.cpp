// The production scheduler and allocator against their oracles, on thousands of seeds.
#include <kvpage/sched/simulator/simulation.hpp>

#include "support/catch.hpp"

using namespace kvpage;

TEST_CASE("sched.simulator.seeds", "[sched]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const SimReport report = simulate(draw_sim_config(seed));
    INFO("seed " << seed << " request " << report.violation_id << " steps " << report.sealed_steps);
    CHECK(std::string(report.violation == nullptr ? "" : report.violation) == "");
  }
}
