// A step that failed changes nothing: no counter, no patience, no batch.
#include "sched/sched_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

const BlockAllocatorConfig kFailing{.num_blocks = 16, .block_size = 4, .max_seqs = 8};

/// Plans and seals a step, and loses it.
void fail_a_step(SchedFixture& f) {
  REQUIRE(f.plan());
  f.seal();
  static_cast<void>(f.scheduler.abort().ok());
}

}  // namespace

TEST_CASE("sched.failed_steps.a_hit_counts_once", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 128, .max_seqs = 4}};
  REQUIRE(f.submit(1, tokens_from(0, 99), 2));
  f.run();
  const SchedulerStats before = f.scheduler.stats();
  REQUIRE(f.submit(2, tokens_from(0, 98), 2));  // all but one of its rows are there, the last block is copied
  for (int i = 0; i < 3; ++i) {
    fail_a_step(f);
    CHECK(f.scheduler.find(RequestId{2})->cached_tokens == 0);
    CHECK(f.scheduler.stats().cached_tokens == before.cached_tokens);
    CHECK(f.scheduler.stats().admissions == before.admissions);
    CHECK(f.scheduler.stats().block_copies == before.block_copies);
    CHECK(f.scheduler.stats().aborted_steps == i + 1);
  }
  f.run();
  CHECK(f.env.events.back().cached_tokens == 97);
  CHECK(f.scheduler.stats().cached_tokens == before.cached_tokens + 97);
  CHECK(f.scheduler.stats().admissions == before.admissions + 1);
  CHECK(f.scheduler.stats().block_copies == before.block_copies + 1);
}

TEST_CASE("sched.failed_steps.windows_and_overtaking_count_once", "[sched]") {
  const auto run = [](bool fails) {
    SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 8, .window_tokens = {8}},
                   {.budget_tokens = 64, .max_seqs = 4, .max_chunk_tokens = 8}, {}};
    REQUIRE(f.submit(1, tokens_from(0, 40), 20));
    while (f.plan()) {
      f.seal();
      if (fails && f.scheduler.stats().aborted_steps <= f.scheduler.stats().steps) {
        static_cast<void>(f.scheduler.abort().ok());
      } else {
        f.commit();
      }
    }
    CHECK((f.scheduler.stats().aborted_steps > 10) == fails);
    return f.scheduler.stats().window_released;
  };
  CHECK(run(false) >= 10);
  CHECK(run(true) == run(false));

  SchedFixture f{kFailing, {.budget_tokens = 64, .max_seqs = 8}, {{}, AnyAdmission{ReservePrompt{}}, {}}};
  REQUIRE(f.submit(1, tokens_from(0, 30), 20));
  f.step();
  REQUIRE(f.submit(2, tokens_from(40, 40), 2));  // 10 of 16 blocks: not while 1 has 8
  REQUIRE(f.submit(3, tokens_from(90, 2), 1));
  for (int i = 0; i < 2; ++i) {
    fail_a_step(f);
    CHECK(f.scheduler.find(RequestId{2})->bypassed == 0);
  }
  CHECK(f.scheduler.stats().bypasses == 0);
  f.step();
  CHECK(f.scheduler.find(RequestId{2})->bypassed == 1);
  CHECK(f.scheduler.stats().bypasses == 1);
  f.run();
}

TEST_CASE("sched.failed_steps.whoever_was_overtaken_may_end_meanwhile", "[sched]") {
  SchedFixture f{kFailing, {.budget_tokens = 64, .max_seqs = 8}, {{}, AnyAdmission{ReservePrompt{}}, {}}};
  REQUIRE(f.submit(1, tokens_from(0, 30), 20));
  f.step();
  REQUIRE(f.submit(2, tokens_from(40, 40), 2));
  REQUIRE(f.submit(3, tokens_from(90, 2), 1));
  REQUIRE(f.plan());
  f.seal();
  REQUIRE(f.scheduler.cancel(RequestId{2}));
  REQUIRE(f.submit(4, tokens_from(60, 40), 2));  // in the place of 2
  f.commit();
  CHECK(f.scheduler.find(RequestId{4})->bypassed == 0);
  f.run();
}

TEST_CASE("sched.failed_steps.a_static_batch_stays_open", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 14, .max_seqs = 3}, {StaticBatch{}, {}, {}}};
  for (std::uint64_t id = 1; id <= 4; ++id) REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(10 * id), 7), 9));
  f.step();  // 1 and 2 use all of its tokens
  REQUIRE(f.scheduler.num_running() == 2);
  fail_a_step(f), fail_a_step(f);
  f.step();
  CHECK(f.scheduler.num_running() == 3);
  f.run();
}

TEST_CASE("sched.failed_steps.in_a_row_are_reported_and_lose_nobody", "[sched]") {
  SchedFixture f{kFailing, {.budget_tokens = 32, .max_seqs = 4}};
  REQUIRE(f.submit(1, tokens_from(0, 9), 6));
  for (int i = 1; i <= 4; ++i) {
    REQUIRE(f.plan());
    f.seal();
    const Status status = f.scheduler.abort();
    CHECK(status.ok() == (i < 3));
    if (!status.ok()) CHECK(status.value() == i);
    CHECK(f.scheduler.find(RequestId{1})->num_computed == 0);
  }
  f.run();
  CHECK(f.text(1) == f.expected(tokens_from(0, 9), 6));
}
