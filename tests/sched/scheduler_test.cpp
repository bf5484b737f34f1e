// The catch-up rule, chunks, hits, budgets: what single plans and small runs look like.
#include "sched/sched_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

TEST_CASE("sched.scheduler.one_request_says_what_the_oracle_says", "[sched]") {
  SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4}};
  const Tokens prompt = tokens_from(3, 10);
  CHECK(f.submit(1, prompt, 7).value().max_new_tokens == 7);
  CHECK(f.run() == 7);  // the prompt and the first token, then one token each
  CHECK(f.text(1) == f.expected(prompt, 7));
  CHECK(f.reason(1) == FinishReason::kLength);
  CHECK(f.env.events.back().last);
}

TEST_CASE("sched.scheduler.many_requests_do_not_change_each_others_text", "[sched]") {
  SchedFixture f{{.num_blocks = 24, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 16, .max_seqs = 6, .max_chunk_tokens = 7}};
  for (std::uint64_t id = 0; id < 12; ++id) {
    REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(id % 3), 5 + id), 9));
  }
  f.run();
  for (std::uint64_t id = 0; id < 12; ++id) {
    INFO("request " << id);
    CHECK(f.text(id) == f.expected(tokens_from(static_cast<TokenId>(id % 3), 5 + id), 9));
  }
  CHECK(f.scheduler.stats().preempted_recompute > 0);
  CHECK(f.scheduler.stats().cached_tokens > 0);
}

TEST_CASE("sched.scheduler.a_missing_seed_is_drawn", "[sched]") {
  SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4}};
  f.env.seed = 77;
  const Tokens prompt = tokens_from(3, 10);
  CHECK(f.submit(1, prompt, 5).value().seed == 77);
  CHECK(f.submit(2, prompt, 5, {.seed = 0}).value().seed == 0);
  f.run();
  CHECK(f.text(1) == f.expected(prompt, 5, 0, 77));
  CHECK(f.text(2) == f.expected(prompt, 5, 0, 0));
  CHECK(f.text(1) != f.text(2));
}

TEST_CASE("sched.scheduler.published_blocks_carry_what_it_costs_to_compute_them", "[sched]") {
  TestEnv env;
  env.step_costs.prefill_ns_per_token = 700;
  SchedFixture f{{.num_blocks = 12, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 32, .max_seqs = 4}, {}, env};
  REQUIRE(f.submit(1, tokens_from(0, 9), 2));
  f.run();
  const PrefixHit hit = f.cache.match({.tokens = tokens_from(0, 8)});
  REQUIRE(hit.num_blocks == 2);
  CHECK(f.cache.index().tree().retention(hit.node).recompute_ns == 4 * 700);
}

TEST_CASE("sched.scheduler.a_tier_that_does_not_fit_the_pool_is_named", "[sched]") {
  SchedFixture f{{.num_blocks = 12, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 32, .max_seqs = 4}};
  SimTier coarse{{.num_slots = 2, .page_bytes = 64, .block_size = 8}};
  SimTier fits{{.num_slots = 2, .page_bytes = 32, .block_size = 4}};
  CHECK_THROWS_AS(f.cache.use_tier(&coarse.tier), ConfigError);
  CHECK_THROWS_AS(f.cache.use_tier(&fits.tier), ConfigError);  // this index has no portable keys
  CHECK(f.cache.tier() == nullptr);
}
