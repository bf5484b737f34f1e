// Public bug reports about schedulers, as tests.
#include "sched/sched_fixture.hpp"

#include <set>

using namespace kvpage;
using namespace kvpage_test;

namespace {
const Policies kPriorities{AnyOrder{PriorityOrder{}}, {}, {}};
}  // namespace

TEST_CASE("bug.B11.a_request_that_never_fits_blocks_nobody", "[sched]") {
  SchedFixture f{{.num_blocks = 10, .block_size = 16, .max_seqs = 4}, {.budget_tokens = 256, .max_seqs = 4, .context_limit = 512}};
  const auto refused = f.submit(1, tokens_from(0, 200), 10);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == RefusalKind::kNeverFits);
  CHECK(refused.error().value == 200);
  CHECK(refused.error().limit == 160);
  REQUIRE(f.submit(2, tokens_from(0, 8), 4));
  for (int i = 0; i < 6; ++i) f.step();
  CHECK(f.reason(2) == FinishReason::kLength);

  const Tokens prompt = tokens_from(3, 150);
  const Ticket ticket = f.submit(3, prompt, 100).value();
  CHECK(ticket.max_new_tokens == 11);  // the last token is never stored: 150 + 10 tokens fill the pool
  CHECK(ticket.limit_reason == FinishReason::kCapacity);
  CHECK(f.run() == 11);
  CHECK(f.reason(3) == FinishReason::kCapacity);
  CHECK(f.text(3) == f.expected(prompt, 11));
  CHECK(f.scheduler.stats().preempted_recompute == 0);
}

TEST_CASE("bug.B13.chunks_are_decided_on_what_the_hit_leaves", "[sched]") {
  struct Case {
    std::size_t prompt, cached;
    std::vector<std::int64_t> chunks;
  };
  const std::vector<Case> cases = {{700, 650, {50}}, {1024, 512, {512}}, {513, 0, {512, 1}}, {513, 512, {1}}};
  for (const Case& c : cases) {
    SchedFixture f{{.num_blocks = 256, .block_size = 16, .max_seqs = 2}, {.budget_tokens = 2048, .max_seqs = 2, .max_chunk_tokens = 512}};
    const Tokens prompt = tokens_from(0, c.prompt);
    if (c.cached > 0) REQUIRE(f.submit(1, Tokens(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(c.cached)), 1));
    f.run();
    REQUIRE(f.submit(2, prompt, 1));
    std::vector<std::int64_t> chunks;
    while (f.plan()) {
      chunks.push_back(f.rows_of(2));
      f.seal();
      f.commit();
    }
    CHECK(chunks == c.chunks);
    CHECK(std::accumulate(chunks.begin(), chunks.end(), std::int64_t{0}) == static_cast<std::int64_t>(c.prompt - c.cached));
    CHECK(f.text(2) == f.expected(prompt, 1));
  }
}

TEST_CASE("bug.B15.a_victim_is_not_in_the_plan", "[sched]") {
  for (const bool low_first : {true, false}) {
    SchedFixture f{{.num_blocks = 4, .block_size = 16, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 2}, kPriorities};
    const Tokens low = tokens_from(1, 31);
    const Tokens high = tokens_from(40, 31);
    if (low_first) REQUIRE(f.submit(5, low, 8, {.priority = 5}));
    REQUIRE(f.submit(0, high, 8, {.priority = 0}));
    if (!low_first) REQUIRE(f.submit(5, low, 8, {.priority = 5}));
    f.step();  // both prompts, 31 tokens each
    f.step();  // both decode into the last slot of their second block
    REQUIRE(f.cache.capacity().available() == 0);
    const std::set<BlockId> low_blocks = [&] {
      const auto blocks = f.cache.table(f.scheduler.find(RequestId{5})->seq).blocks;
      return std::set<BlockId>(blocks.begin(), blocks.end());
    }();
    REQUIRE(f.plan());
    CHECK(f.batch->num_seqs() == 1);
    CHECK(f.batch->num_tokens() == 1);
    CHECK(f.rows_of(0) == 1);
    CHECK(f.rows_of(5) == 0);
    for (const PlannedOwner& owner : f.batch->owners) CHECK(owner.request == RequestId{0});
    CHECK(f.scheduler.find(RequestId{5})->state == RequestState::kRunning);  // a plan can still be dropped
    f.seal();
    const Request* victim = f.scheduler.find(RequestId{5});
    CHECK(victim->state == RequestState::kWaiting);
    CHECK(victim->num_tokens() == 33);
    CHECK_FALSE(victim->has_seq);
    f.commit();
    f.run();
    CHECK(f.text(5) == f.expected(low, 8));
    CHECK(f.text(0) == f.expected(high, 8));
    CHECK(low_blocks.size() == 2);
  }
}

TEST_CASE("bug.B16.an_urgent_request_takes_a_row_and_equals_never_do", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 16, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 1}, kPriorities};
  const Tokens low = tokens_from(1, 10);
  REQUIRE(f.submit(9, low, 200, {.priority = 9}));
  for (int i = 0; i < 5; ++i) f.step();
  REQUIRE(f.submit(0, tokens_from(30, 6), 4, {.priority = 0}));
  REQUIRE(f.plan());
  CHECK(f.rows_of(0) == 6);
  CHECK(f.rows_of(9) == 0);
  f.seal();
  CHECK(f.scheduler.find(RequestId{9})->state == RequestState::kParked);  // only its row was wanted
  f.commit();
  REQUIRE(f.submit(10, tokens_from(60, 6), 4, {.priority = 0}));  // as urgent as the one that runs: it waits
  while (f.scheduler.find(RequestId{0}) != nullptr) {
    REQUIRE(f.plan());
    CHECK(f.rows_of(10) == 0);
    f.seal();
    f.commit();
  }
  f.run();
  CHECK(f.text(9) == f.expected(low, 200));
  CHECK(f.scheduler.stats().recomputed_tokens == 0);
  CHECK(f.scheduler.stats().preempted_keep == 1);

  SchedFixture g{{.num_blocks = 64, .block_size = 16, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 3}, kPriorities};
  REQUIRE(g.submit(1, tokens_from(1, 4), 50, {.priority = 9}));
  REQUIRE(g.submit(2, tokens_from(2, 4), 50, {.priority = 9}));
  REQUIRE(g.submit(3, tokens_from(3, 4), 50, {.priority = 2}));
  g.step();
  REQUIRE(g.submit(4, tokens_from(4, 4), 5, {.priority = 1}));
  g.step();
  CHECK(g.scheduler.find(RequestId{2})->state == RequestState::kParked);  // least urgent, then last
  g.run();
  REQUIRE(g.scheduler.stats().preempted_keep == 1);
  for (std::uint64_t id = 5; id < 9; ++id) REQUIRE(g.submit(id, tokens_from(static_cast<TokenId>(id), 4), 9, {.priority = 3}));
  g.run();
  CHECK(g.scheduler.stats().preempted_keep == 1);  // the fourth equal waited
}

TEST_CASE("bug.B18.the_context_limit_is_exact", "[sched]") {
  SchedFixture f{{.num_blocks = 128, .block_size = 1024, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4, .context_limit = 16}};
  CHECK(f.submit(14, tokens_from(0, 14), 10).value().max_new_tokens == 2);
  CHECK(f.submit(15, tokens_from(0, 15), 10).value().max_new_tokens == 1);
  for (const std::size_t length : {std::size_t{16}, std::size_t{17}}) {
    const auto refused = f.submit(length, tokens_from(0, length), 10);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == RefusalKind::kContextLimit);
    CHECK(refused.error().value == static_cast<std::int64_t>(length));
    CHECK(refused.error().limit == 16);
  }
  f.run();
  CHECK(f.text(14).size() == 2);
  CHECK(f.text(15).size() == 1);
  CHECK(f.reason(14) == FinishReason::kLength);
  CHECK(f.reason(15) == FinishReason::kLength);

  SchedFixture g{{.num_blocks = 128, .block_size = 1024, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4, .context_limit = 128'000}};
  const Ticket ticket = g.submit(1, tokens_from(0, 62'466), 65'535).value();
  CHECK(ticket.max_new_tokens == 65'534);
  CHECK(ticket.limit_reason == FinishReason::kLength);
  CHECK(g.scheduler.cancel(RequestId{1}));
}

TEST_CASE("bug.B53.a_draw_depends_on_seed_position_and_answer_alone", "[sched]") {
  const Tokens prompt = tokens_from(7, 9);
  const RequestSpec seeded{.seed = 42};
  SchedFixture alone{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4}};
  REQUIRE(alone.submit(1, prompt, 16, seeded));
  alone.run();
  SchedFixture mixed{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4}};
  REQUIRE(mixed.submit(7, tokens_from(20, 5), 16, {.seed = 5}));
  REQUIRE(mixed.submit(1, prompt, 16, seeded));
  REQUIRE(mixed.submit(2, prompt, 16, seeded));  // twice in one batch
  for (int i = 0; i < 6; ++i) mixed.step();
  CHECK(mixed.scheduler.preempt(RequestId{2}) == 1);
  mixed.run();
  CHECK(mixed.text(1) == alone.text(1));
  CHECK(mixed.text(2) == alone.text(1));
  CHECK(mixed.text(7) != alone.text(1));
}
