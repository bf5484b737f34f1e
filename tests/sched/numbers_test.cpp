// Every number that docs/scheduling.md and the comments of the scheduler promise, to the last one that holds and one step beyond.
#include "sched/policies_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Ids in the order of their first rows, one sequence at a time, of what is submitted already.
std::vector<std::uint64_t> order_from_now(SchedFixture& f) {
  std::vector<std::uint64_t> ids;
  while (f.plan()) {
    for (const PlannedOwner& owner : f.batch->owners) {
      if (owner.cached_tokens >= 0) ids.push_back(owner.request.value);
    }
    f.seal();
    f.commit();
  }
  return ids;
}

/// Prompts that share nothing.
Tokens own_prompt(std::uint64_t id, std::size_t length) {
  Tokens tokens(length, static_cast<TokenId>(1000 + id));
  return tokens;
}

}  // namespace

TEST_CASE("sched.numbers.the_guard_acts_after_sixty_seconds", "[sched]") {
  for (const std::int64_t late_ns : {0, 1}) {
    SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 1}, {.budget_tokens = 64, .max_seqs = 1}, with_order(Shortest{})};
    REQUIRE(f.submit(1, tokens_from(0, 4), 3));
    f.step();
    REQUIRE(f.submit(2, tokens_from(20, 40), 20));
    REQUIRE(f.submit(3, tokens_from(0, 2), 1));
    f.env.time_ns = 60 * kSecond + late_ns;
    CHECK(order_from_now(f) == (late_ns > 0 ? std::vector<std::uint64_t>{2, 3} : std::vector<std::uint64_t>{3, 2}));
  }
}

TEST_CASE("sched.numbers.a_priority_is_worth_ten_seconds", "[sched]") {
  for (const std::int64_t priority : {std::int64_t{1}, std::int64_t{3}, std::int64_t{100}, kMaxPriority}) {
    for (const std::int64_t late_ns : {-1, 0, 1}) {
      INFO("priority " << priority << ", " << late_ns);
      SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 1},
                     {.budget_tokens = 64, .max_seqs = 1, .starve_after_ns = std::numeric_limits<std::int64_t>::max() / 2},
                     with_order(PriorityOrder{})};
      REQUIRE(f.submit(1, tokens_from(0, 4), 1, {.priority = priority}));
      f.env.time_ns = priority * 10 * kSecond + late_ns;
      REQUIRE(f.submit(2, tokens_from(0, 4), 1));
      CHECK(order_from_now(f) == (late_ns < 0 ? std::vector<std::uint64_t>{2, 1} : std::vector<std::uint64_t>{1, 2}));
    }
  }
}

TEST_CASE("sched.numbers.work_yields_three_times_unless_to_the_leader", "[sched]") {
  SchedFixture f{{.num_blocks = 256, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 64, .max_seqs = 2}, with_order(PriorityOrder{})};
  REQUIRE(f.submit(0, tokens_from(0, 4), 200, {.priority = 1}));  // leads: whoever comes 20 s later does not
  REQUIRE(f.submit(1, tokens_from(20, 4), 200, {.priority = 1}));
  f.step();
  f.env.time_ns = 20 * kSecond;
  for (std::uint64_t urgent = 2; urgent < 8; ++urgent) {
    INFO(urgent - 1 << " urgent ones");
    REQUIRE(f.submit(urgent, tokens_from(40, 4), 2));
    f.step();
    CHECK((f.text(urgent).size() == 1) == (urgent < 5));
    CHECK(f.scheduler.find(RequestId{1})->num_preemptions() == std::min<std::int64_t>(3, static_cast<std::int64_t>(urgent) - 1));
    f.step(), f.step();
  }
  f.run();
}

TEST_CASE("sched.numbers.a_request_waits_eight_steps_for_a_prompt_in_the_making", "[sched]") {
  SchedFixture f{{.num_blocks = 256, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 2, .max_chunk_tokens = 4},
                 with_order(LongestPrefix{})};
  REQUIRE(f.submit(1, tokens_from(0, 300), 1));  // 75 steps
  f.step();
  REQUIRE(f.submit(2, tokens_from(0, 300), 1));
  std::int64_t held = 0;
  for (; f.scheduler.find(RequestId{2})->num_computed == 0; ++held) {
    REQUIRE(held < 100);
    f.step();
  }
  CHECK(held == 8 + 1);  // and in the ninth it starts
  f.run();
}

TEST_CASE("sched.numbers.only_thirty_two_tokens_are_worth_that_wait", "[sched]") {
  for (const std::size_t common : {35, 36}) {  // 4 of them cached
    SchedFixture f{{.num_blocks = 256, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 2, .max_chunk_tokens = 4},
                   with_order(LongestPrefix{})};
    REQUIRE(f.submit(1, tokens_from(0, 300), 1));
    f.step();
    Tokens prompt = tokens_from(0, common);
    prompt.push_back(999);
    REQUIRE(f.submit(2, prompt, 1));
    f.step();
    CHECK((f.scheduler.find(RequestId{2})->num_computed == 0) == (common == 36));
    f.run();
  }
}

TEST_CASE("sched.numbers.the_longest_prefix_is_sought_among_the_first_128", "[sched]") {
  for (const std::uint64_t place : {128, 129}) {
    SchedFixture f{{.num_blocks = 512, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 1}, with_order(LongestPrefix{})};
    REQUIRE(f.submit(0, tokens_from(0, 8), 2));
    f.step();
    for (std::uint64_t id = 1; id < place; ++id) REQUIRE(f.submit(id, own_prompt(id, 4), 1));
    REQUIRE(f.submit(place, tokens_from(0, 8), 1));
    const std::vector<std::uint64_t> order = order_from_now(f);
    CHECK(order.front() == (place == 128 ? 128 : 1));
  }
}

TEST_CASE("sched.numbers.a_step_looks_at_thirty_two_that_lack_blocks", "[sched]") {
  for (const std::uint64_t large : {31, 32}) {
    SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 64}, {.budget_tokens = 128, .max_seqs = 64},
                   with_admission(ReservePrompt{})};
    REQUIRE(f.submit(0, tokens_from(0, 20), 20));
    f.step();
    for (std::uint64_t id = 1; id <= large; ++id) REQUIRE(f.submit(id, own_prompt(id, 60), 1));
    REQUIRE(f.submit(99, own_prompt(99, 2), 1));
    REQUIRE(f.plan());
    CHECK((f.rows_of(99) > 0) == (large == 31));
    f.scheduler.drop();
    for (std::uint64_t id = 0; id <= 99; ++id) f.scheduler.cancel(RequestId{id});
  }
}

TEST_CASE("sched.numbers.whoever_comes_back_finds_a_block_to_spare", "[sched]") {
  for (const std::int64_t groups : {1, 2}) {
    for (const std::int64_t free_blocks : {2, 3}) {
      INFO(groups << " groups, " << free_blocks << " blocks of each free");
      SchedFixture f{{.num_blocks = (3 + free_blocks) * groups, .block_size = 4, .max_seqs = 2, .num_groups = groups},
                     {.budget_tokens = 64, .max_seqs = 2, .share_prefixes = false}, with_admission(ReserveChunk{})};
      REQUIRE(f.submit(0, tokens_from(0, 9), 4));  // leads, and never needs more than 3 blocks of each group
      REQUIRE(f.submit(1, tokens_from(20, 7), 2));
      f.step();
      REQUIRE(f.scheduler.preempt(RequestId{1}) == 1);  // 8 tokens: it had two blocks, and needs two
      REQUIRE(f.plan());
      CHECK(f.rows_of(1) == (free_blocks == 3 ? 8 : 0));
      f.seal();
      f.commit();
      f.run();
      CHECK(f.text(1) == f.expected(tokens_from(20, 7), 2));
    }
  }
}

TEST_CASE("sched.numbers.the_queue_holds_1024_requests_and_64_mi_tokens", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 1}, {.budget_tokens = 64, .max_seqs = 1}};
  for (std::uint64_t id = 0; id < 1024; ++id) REQUIRE(f.submit(id, {1}, 1));
  const auto full = f.submit(1024, {1}, 1);
  REQUIRE_FALSE(full);
  CHECK((full.error().kind == RefusalKind::kQueueFull && full.error().value == 1025 && full.error().limit == 1024));
  for (std::uint64_t id = 0; id < 1024; ++id) f.scheduler.cancel(RequestId{id});

  constexpr std::int64_t kLimit = std::int64_t{64} << 20;
  SchedFixture g{{.num_blocks = 1 << 15, .block_size = 32, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 1}};
  REQUIRE(g.submit(1, {1}, kLimit / 128 - 1, {.num_samples = 128}));  // 128 answers of 2^19 tokens: exactly all
  const auto one_more = g.submit(2, {1}, 1);
  REQUIRE_FALSE(one_more);
  CHECK(one_more.error().kind == RefusalKind::kQueueTokensFull);
  CHECK((one_more.error().value == kLimit + 2 && one_more.error().limit == kLimit));
  g.scheduler.cancel(RequestId{1});
  CHECK(g.submit(2, {1}, 1));
}

TEST_CASE("sched.numbers.a_step_has_2048_rows_of_128_sequences", "[sched]") {
  SchedFixture f{{.num_blocks = 1024, .block_size = 16, .max_seqs = 256}, {}, with_order(Fcfs{})};
  REQUIRE(f.submit(0, Tokens(4096, 7), 1));
  REQUIRE(f.plan());
  CHECK(f.rows_of(0) == 2048);
  f.scheduler.drop();
  f.scheduler.cancel(RequestId{0});
  for (std::uint64_t id = 0; id < 140; ++id) REQUIRE(f.submit(id, own_prompt(id, 3), 1));
  REQUIRE(f.plan());
  CHECK(f.batch->num_seqs() == 128);
  f.scheduler.drop();
  for (std::uint64_t id = 0; id < 140; ++id) f.scheduler.cancel(RequestId{id});
}

TEST_CASE("sched.numbers.learned_growth_is_seven_tenths_and_falls_to_14_percent_of_that_in_600_steps", "[sched]") {
  LearnedGrowth growth;
  const auto after = [&](int steps) {
    LearnedGrowth g;
    for (int i = 0; i < steps; ++i) g.on_step();
    return g.ratio;
  };
  CHECK(after(0) == 0.7);
  CHECK(after(300) == Approx(0.7 * (1 + 0.14) / 2));  // linearly
  CHECK(after(599) > 0.7 * 0.14 + 0.0005);
  CHECK(after(600) == Approx(0.7 * 0.14));
  CHECK(after(601) == 0.7 * 0.14);
  CHECK(after(5000) == 0.7 * 0.14);
  for (int i = 0; i < 600; ++i) growth.on_step();
  growth.on_preemption(3, 100, 1);  // and 20 tokens for each that runs
  CHECK(growth.ratio == Approx(0.23));
}

TEST_CASE("sched.numbers.an_answer_reserves_4096_tokens_at_most", "[sched]") {
  for (const std::int64_t blocks : {514, 515}) {  // of 16 tokens: two prompts of one block, 256 blocks for each answer, and one taken
    SchedFixture f{{.num_blocks = blocks, .block_size = 16, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 2},
                   with_admission(LearnedGrowth{.first_ratio = 1.0, .final_share = 1.0})};
    REQUIRE(f.submit(0, own_prompt(0, 16), 6000));
    f.step();
    REQUIRE(f.submit(1, own_prompt(1, 16), 6000));
    f.step();
    INFO(blocks << " blocks");
    CHECK(f.scheduler.num_running() == (blocks == 515 ? 2 : 1));
    for (std::uint64_t id = 0; id < 2; ++id) f.scheduler.cancel(RequestId{id});
  }
}

TEST_CASE("sched.numbers.a_third_abort_in_a_row_is_an_error", "[sched]") {
  SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 1}, {.budget_tokens = 32, .max_seqs = 1}};
  REQUIRE(f.submit(1, tokens_from(0, 4), 9));
  for (int round = 0; round < 2; ++round) {
    for (const bool good : {true, true, false, false}) {
      REQUIRE(f.plan());
      f.seal();
      CHECK(f.scheduler.abort().ok() == good);
    }
    f.step();  // a step that runs ends the row
  }
  f.run();
}

TEST_CASE("sched.numbers.a_rank_is_what_the_table_says", "[sched]") {
  const auto first_of = [](const AnyOrder& order, std::size_t prompt, std::int64_t max_new, std::int64_t late_ns, const RequestSpec& one,
                           const RequestSpec& other) {
    SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 1}, {.budget_tokens = 64, .max_seqs = 1}, with_order(order)};
    REQUIRE(f.submit(1, tokens_from(0, 40), 40, one));
    f.env.time_ns = late_ns;
    REQUIRE(f.submit(2, tokens_from(0, prompt), max_new, other));
    return order_from_now(f).front();
  };
  CHECK(first_of(Shortest{}, 39, 40, 0, {}, {}) == 2);  // prompt + allowed tokens; equals by arrival
  CHECK(first_of(Shortest{}, 39, 41, 0, {}, {}) == 1);
  CHECK(first_of(DeadlineOrder{}, 4, 1, 0, {.finish_by_ns = 1'000}, {.finish_by_ns = 999}) == 2);
  CHECK(first_of(DeadlineOrder{}, 4, 1, 0, {.finish_by_ns = 1'000}, {.finish_by_ns = 1'000}) == 1);
  CHECK(first_of(DeadlineOrder{}, 4, 1, 0, {.start_by_ns = 1'000}, {.start_by_ns = 1, .finish_by_ns = 1'001}) == 1);
  // Example 02: eight times the own service time later. 404 ms against 40.4: ranked 2.9088 s apart.
  CHECK(first_of(own::AgedShortest{}, 4, 4, 2'908'799'999, {}, {}) == 2);
  CHECK(first_of(own::AgedShortest{}, 4, 4, 2'908'800'000, {}, {}) == 1);
}
