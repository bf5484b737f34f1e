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
