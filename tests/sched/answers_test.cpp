// Several answers of one request: forks, beams, windows, pins, and steps that allocate nothing.
#include "support/allocation_count.hpp"
#include "sched/sched_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

TEST_CASE("sched.answers.one_prompt_is_computed_for_all", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 64, .max_seqs = 8}};
  const Tokens prompt = tokens_from(1, 18);
  REQUIRE(f.submit(1, prompt, 7, {.num_samples = 5, .seed = 9}));
  f.run();
  CHECK(f.scheduler.stats().tokens == 18 + 5 * 6);
  CHECK(f.scheduler.stats().forks == 4);
  CHECK(f.scheduler.stats().block_copies == 4);  // the block that the prompt leaves half filled, but for the last holder
  for (std::uint32_t child = 0; child < 5; ++child) CHECK(f.text(1, child) == f.expected(prompt, 7, child, 9));
}

TEST_CASE("sched.answers.answers_without_a_row_wait", "[sched]") {
  SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 64, .max_seqs = 2}};
  const Tokens prompt = tokens_from(1, 18);
  f.env.time_ns = 5;
  REQUIRE(f.submit(1, prompt, 7, {.num_samples = 5, .seed = 9}));
  for (std::uint32_t child = 0; child < 5; ++child) {  // the first one waits for all
    CHECK(f.scheduler.find(RequestId{1}, child)->waiting_since_ns == (child == 0 ? 5 : 0));
  }
  f.run();
  CHECK(f.scheduler.stats().cached_tokens >= 3 * 16);
  for (std::uint32_t child = 0; child < 5; ++child) CHECK(f.text(1, child) == f.expected(prompt, 7, child, 9));
}

TEST_CASE("sched.answers.a_beam_continues_the_answers_that_its_results_name", "[sched]") {
  for (const bool preempt : {false, true}) {
    SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 12}, {.budget_tokens = 64, .max_seqs = 6, .max_chunk_tokens = 5}};
    const Tokens prompt = tokens_from(1, 10);
    REQUIRE(f.submit(1, prompt, 6, {.num_samples = 3, .beam = true}));
    std::vector<Tokens> answers(3);
    int round = 0;
    while (f.plan()) {
      f.seal();
      f.run_model();
      REQUIRE((f.results.empty() || f.results.size() == 3));
      if (!f.results.empty()) {
        const auto before = answers;
        for (std::uint32_t c = 0; c < 3; ++c) {
          if (round > 0) f.results[c].source = (c * 2 + static_cast<std::uint32_t>(round)) % 3 / (round % 2 == 0 ? 2 : 1);
          answers[c] = before[round > 0 ? f.results[c].source : c];
          answers[c].push_back(f.results[c].token);
        }
        ++round;
      }
      f.scheduler.commit(f.results);
      f.cache.check_invariants();
      if (preempt && round == 3 && f.scheduler.stats().preempted_recompute == 0) CHECK(f.scheduler.preempt(RequestId{1}) == 3);
      for (std::uint32_t c = 0; c < 3 && round > 0; ++c) {
        const Request* r = f.scheduler.find(RequestId{1}, c);
        if (r != nullptr) CHECK(Tokens(r->tokens.begin() + 10, r->tokens.end()) == answers[c]);
      }
    }
    CHECK(round == 6);
    CHECK(f.scheduler.stats().forks > 5);
    CHECK(f.cache.capacity().available() == 64);
  }
}

TEST_CASE("sched.answers.a_beam_takes_the_pool_to_its_last_block", "[sched]") {
  for (const std::int64_t blocks : {4, 5}) {  // the prompt in one, and for each of two answers one to write and one while it is copied
    SchedFixture f{{.num_blocks = blocks, .block_size = 4, .max_seqs = 6}, {.budget_tokens = 64, .max_seqs = 4}};
    const auto ticket = f.submit(1, tokens_from(1, 4), 5, {.num_samples = 2, .beam = true});  // 8 tokens in the cache
    REQUIRE(ticket);
    CHECK(ticket->max_new_tokens == (blocks == 5 ? 5 : 1));
    CHECK(ticket->limit_reason == (blocks == 5 ? FinishReason::kLength : FinishReason::kCapacity));
    f.run();
  }
}

TEST_CASE("sched.answers.blocks_behind_a_window_go_while_the_request_runs", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4, .num_groups = 2, .window_tokens = {0, 8}},
                   {.budget_tokens = 64, .max_seqs = 4, .max_chunk_tokens = 6}};
  const Tokens prompt = tokens_from(1, 40);
  REQUIRE(f.submit(1, prompt, 20));
  f.run();
  CHECK(f.text(1) == f.expected(prompt, 20));
  CHECK(f.scheduler.stats().window_released >= 11);
  REQUIRE(f.submit(2, prompt, 20));
  f.run();
  CHECK(f.text(2) == f.expected(prompt, 20));
  CHECK(f.scheduler.stats().cached_tokens == 39);  // a row that only looks would look behind the window
}

TEST_CASE("sched.answers.pins_yield_to_the_leader", "[sched]") {
  SchedFixture f{{.num_blocks = 8, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 2}};
  REQUIRE(f.submit(1, tokens_from(50, 15), 1));
  f.run();
  f.cache.pin(f.cache.match({.tokens = tokens_from(50, 12)})).value();
  CHECK(f.cache.capacity().pinned == 3);
  REQUIRE(f.submit(2, tokens_from(1, 30), 3));
  f.run();
  CHECK(f.scheduler.stats().yielded_pins == 1);
  CHECK(f.text(2) == f.expected(tokens_from(1, 30), 3));
}

TEST_CASE("sched.answers.a_full_hit_computes_one_row_and_writes_nothing", "[sched]") {
  SchedFixture f{{.num_blocks = 32, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 2}};
  const Tokens prompt = tokens_from(1, 12);
  REQUIRE(f.submit(1, prompt, 4));
  f.run();
  REQUIRE(f.submit(2, prompt, 4));
  REQUIRE(f.plan());
  CHECK(f.batch->num_tokens() == 1);
  CHECK(f.batch->groups[0].write_slots[0] == kNoSlot);
  CHECK(f.batch->copies.empty());
  f.scheduler.drop();
  f.run();
  CHECK(f.text(2) == f.text(1));
}

TEST_CASE("sched.answers.a_step_allocates_nothing", "[sched]") {
  const auto order = GENERATE(AnyOrder{Fcfs{}}, AnyOrder{FairShare{}});
  SchedFixture f{{.num_blocks = 32, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 64, .max_seqs = 6}, {order, {}, {}}};
  f.env.events.reserve(100'000);
  std::size_t in_steps = 0;
  std::uint64_t id = 0;
  for (int i = 0; i < 400; ++i) {
    if (f.scheduler.num_requests() < 9) {
      ++id;
      REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(id % 5), 3 + id % 20), 12,
                       {.num_samples = id % 3 == 0 ? 2 : 1, .tenant = static_cast<std::uint32_t>(id % 5)}));
    }
    const std::size_t before = allocated_bytes();
    f.batch = &f.scheduler.plan();
    f.seal();
    const std::size_t planned = allocated_bytes() - before;
    f.run_model();
    const std::size_t model = allocated_bytes();
    f.scheduler.commit(f.results);
    if (i > 200) in_steps += planned + allocated_bytes() - model;
  }
  CHECK(f.scheduler.stats().preempted_recompute > 0);
  CHECK(in_steps == 0);
  f.run();
}

TEST_CASE("sched.answers.a_tenant_takes_room_for_its_own_requests", "[sched]") {
  const auto bytes_of = [](const AnyOrder& order) {
    SchedFixture f{{.num_blocks = 32, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 64, .max_seqs = 6}, {order, {}, {}}};
    const std::size_t before = allocated_bytes();
    for (std::uint32_t id = 0; id < 1000; ++id) REQUIRE(f.submit(id, tokens_from(0, 4), 4, {.tenant = id}));
    return allocated_bytes() - before;
  };
  const std::size_t one_queue = bytes_of(Fcfs{});
  const std::size_t lanes = bytes_of(FairShare{});
  INFO(one_queue << " bytes in one queue, " << lanes << " in lanes");
  CHECK(lanes < 2 * one_queue);
}
