// One suite for every preemption policy: a strict weak order, and the rules of cost.
#include "sched/policies_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

/// Few different values, so that ties are frequent.
std::vector<PreemptionCandidate> draw_candidates(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 rng{seed};
  std::vector<PreemptionCandidate> candidates(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto draw = [&](std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n)); };
    candidates[i] = {.base_priority = draw(2), .lost_ns = draw(4) * 1'000'000, .freed_blocks = draw(4)};
    candidates[i].key = {draw(3), i};
    candidates[i].new_tokens = draw(10);
  }
  return candidates;
}

}  // namespace

TEMPLATE_TEST_CASE("sched.policies.preemption.is_a_strict_weak_order", "[sched]", PreemptByCost, PreemptLast) {
  const TestType policy{};
  const auto candidates = draw_candidates(3, 60);
  const auto worse = [&](std::size_t a, std::size_t b) { return policy.worse(candidates[a], candidates[b]); };
  std::int64_t violations = 0;
  for (std::size_t a = 0; a < candidates.size(); ++a) {
    violations += worse(a, a);
    for (std::size_t b = 0; b < candidates.size(); ++b) {
      violations += worse(a, b) && worse(b, a);
      if (a != b) violations += !worse(a, b) && !worse(b, a);  // keys differ: there is always a first victim
      for (std::size_t c = 0; c < candidates.size(); ++c) violations += worse(a, b) && worse(b, c) && !worse(a, c);
    }
  }
  CHECK(violations == 0);
}

TEMPLATE_TEST_CASE("sched.policies.preemption.the_least_urgent_gives_way_first", "[sched]", PreemptByCost, PreemptLast) {
  const TestType policy{};
  const auto candidates = draw_candidates(4, 60);
  for (const PreemptionCandidate& a : candidates) {
    for (const PreemptionCandidate& b : candidates) {
      if (a.base_priority > b.base_priority) CHECK(policy.worse(a, b));
    }
  }
}

TEST_CASE("sched.policies.preemption.by_cost_takes_what_loses_least_per_block", "[sched]") {
  const PreemptByCost policy{};
  const PreemptionCandidate early{.lost_ns = 300, .freed_blocks = 3, .key = {1, 1}};
  const PreemptionCandidate late{.lost_ns = 300, .freed_blocks = 3, .key = {2, 2}};
  CHECK(policy.worse(late, early));  // as dear: the one that came last
  CHECK(policy.worse({.lost_ns = 299, .freed_blocks = 3, .key = {1, 1}}, late));
  CHECK(policy.worse({.lost_ns = 300, .freed_blocks = 4, .key = {1, 1}}, late));
  CHECK(policy.worse({.lost_ns = 900, .freed_blocks = 10, .key = {1, 1}}, late));
  CHECK_FALSE(policy.worse({.lost_ns = 0, .freed_blocks = 0, .key = {9, 9}}, late));  // frees nothing: last of all
  CHECK(PreemptLast{}.worse({.lost_ns = 1'000'000, .freed_blocks = 1, .key = {3, 3}}, late));
}

TEST_CASE("sched.policies.preemption.whoever_gave_way_often_is_let_run", "[sched]") {
  for (const std::int64_t shield_after : {1, 2, 3}) {
    SchedFixture f{{.num_blocks = 256, .block_size = 4, .max_seqs = 8},
                   {.budget_tokens = 64, .max_seqs = 2, .shield_after = shield_after}, {AnyOrder{PriorityOrder{}}, {}, {}}};
    REQUIRE(f.submit(0, tokens_from(0, 4), 200, {.priority = 1}));  // leads
    REQUIRE(f.submit(1, tokens_from(20, 4), 100, {.priority = 1}));
    f.step();
    f.env.time_ns = 20'000'000'000;  // who comes now does not lead
    for (std::uint64_t urgent = 2; urgent < 8; ++urgent) {
      REQUIRE(f.submit(urgent, tokens_from(40, 4), 2));
      f.step(), f.step(), f.step();
    }
    CHECK(f.scheduler.find(RequestId{1})->num_preemptions() == shield_after);
    f.run();
    CHECK(f.text(1) == f.expected(tokens_from(20, 4), 100));
  }
  SchedFixture f{{.num_blocks = 256, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 64, .max_seqs = 1, .shield_after = 1},
                 {AnyOrder{PriorityOrder{}}, {}, {}}};
  REQUIRE(f.submit(1, tokens_from(20, 4), 100, {.priority = 1}));
  f.step();
  for (std::uint64_t urgent = 2; urgent < 5; ++urgent) {
    REQUIRE(f.submit(urgent, tokens_from(40, 4), 2));
    f.step();
    CHECK(f.text(urgent).size() == 1);  // it leads
    f.step(), f.step();
  }
  CHECK(f.scheduler.find(RequestId{1})->num_preemptions() == 3);
  f.run();
}

TEST_CASE("sched.policies.preemption.the_scheduler_takes_the_cheapest", "[sched]") {
  int checked = 0;
  for (std::int64_t pool = 18; pool < 34; ++pool) {
    SchedFixture f{{.num_blocks = pool, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 64, .max_seqs = 4},
                   with_admission(ReserveChunk{})};
    REQUIRE(f.submit(0, tokens_from(0, 4), 60));
    REQUIRE(f.submit(1, tokens_from(10, 22), 40));
    REQUIRE(f.submit(2, tokens_from(60, 23), 40));
    f.step();
    const auto candidate = [&](std::uint64_t id) {
      const Request* r = f.scheduler.find(RequestId{id});
      const std::int64_t blocks = ceil_div(f.cache.num_tokens(r->seq), std::int64_t{4});
      return PreemptionCandidate{.lost_ns = r->num_computed * 1000, .freed_blocks = blocks, .key = r->key};
    };
    const auto wants_block = [&](std::uint64_t id) { return f.scheduler.find(RequestId{id})->num_computed % 4 == 0; };
    while (f.scheduler.stats().preempted_recompute == 0 && f.scheduler.num_running() == 3) {
      const bool first_goes = PreemptByCost{}.worse(candidate(1), candidate(2));
      const bool leader_benefits = wants_block(0) && !wants_block(1) && !wants_block(2);
      f.step();
      if (f.scheduler.stats().preempted_recompute == 0 || !leader_benefits) continue;
      CHECK(f.scheduler.find(RequestId{first_goes ? 1u : 2u})->num_preemptions() == 1);
      CHECK(f.scheduler.find(RequestId{first_goes ? 2u : 1u})->num_preemptions() == 0);
      ++checked;
    }
    CHECK(f.scheduler.find(RequestId{0})->num_preemptions() == 0);  // the leader never gives way
    run_looking(f, [] {});
    CHECK(f.text(1) == f.expected(tokens_from(10, 22), 40));
    CHECK(f.text(2) == f.expected(tokens_from(60, 23), 40));
  }
  CHECK(checked >= 3);
}
