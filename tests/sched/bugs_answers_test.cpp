// Public bug reports about cancellation, several answers and hostile numbers, as tests.
#include "sched/sched_fixture.hpp"

#include <random>

using namespace kvpage;
using namespace kvpage_test;

TEST_CASE("bug.B19.a_lost_client_leaves_no_row_behind", "[sched]") {
  SchedFixture f{{.num_blocks = 40, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 24, .max_seqs = 4, .max_chunk_tokens = 5}};
  std::mt19937_64 rng{19};
  int seen[5] = {};  // queued, in a prompt chunk, first token, decoding, in the step of the last token
  for (std::uint64_t round = 0; round < 200; ++round) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      REQUIRE(f.submit(10 * round + i, tokens_from(static_cast<TokenId>(rng() % 50), 5 + rng() % 20), 6));
    }
    std::uint64_t left = 4;
    while (left > 0) {
      const RequestId id{10 * round + 4 - left};
      const Request* r = f.scheduler.find(id);
      const auto moment = rng() % 5;
      if (r == nullptr || moment == 4) {
        if (f.plan()) {
          f.seal();
          if (r != nullptr && r->num_new_tokens() == 5 && f.rows_of(id.value) == 1) {
            ++seen[4];
            CHECK(f.scheduler.cancel(id));
            --left;
          }
          f.commit();
        }
        if (r == nullptr) --left;
        continue;
      }
      const std::uint64_t now = r->num_computed == 0 ? 0 : r->num_new_tokens() == 0 ? 1 : r->num_new_tokens() == 1 ? 2 : 3;
      if (now == moment) {
        ++seen[now];
        CHECK(f.scheduler.cancel(id));
        CHECK_FALSE(f.scheduler.cancel(id));
        --left;
      } else {
        f.step();
      }
    }
    REQUIRE(f.scheduler.num_running() == 0);
    REQUIRE(f.cache.capacity().available() == 40);
  }
  for (const int count : seen) CHECK(count > 10);
  REQUIRE(f.submit(99'999, tokens_from(0, 12), 6));
  f.run();
  CHECK(f.text(99'999) == f.expected(tokens_from(0, 12), 6));
}

TEST_CASE("bug.B20.answers_end_one_by_one_and_the_request_with_the_last", "[sched]") {
  const Tokens prompt = tokens_from(2, 20);
  SchedFixture f{{.num_blocks = 32, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4}};
  REQUIRE(f.submit(1, prompt, 30, {.num_samples = 3, .seed = 42}));
  f.step();
  for (std::uint32_t child = 0; child < 3; ++child) {
    const Request* r = f.scheduler.find(RequestId{1}, child);
    REQUIRE(r->state == RequestState::kRunning);
    for (const BlockId block : f.cache.table(r->seq).blocks) CHECK(f.cache.ref_count(block) == 3);
  }
  const std::int64_t lengths[] = {1, 5, 9};
  while (f.plan()) {
    f.seal();
    f.run_model();
    for (std::size_t i = 0; i < f.batch->samples.size(); ++i) {
      const PlannedSample& s = f.batch->samples[i];
      f.results[i].stop = s.position - 20 + 1 >= lengths[s.child] + 1;
    }
    f.scheduler.commit(f.results);
  }
  for (std::uint32_t child = 0; child < 3; ++child) {
    CHECK(f.text(1, child) == f.expected(prompt, lengths[child] + 1, child, 42));
    CHECK(f.reason(1, child) == FinishReason::kStop);
  }
  CHECK(f.text(1, 0) != f.text(1, 1));
  for (const RequestEvent& event : f.env.events) CHECK(event.last == (event.child == 2 && event.finish == FinishReason::kStop));
  CHECK(f.cache.capacity().available() == 32);
}

TEST_CASE("bug.B20.the_end_of_the_request_ends_all_answers", "[sched]") {
  SchedFixture f{{.num_blocks = 32, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4}};
  REQUIRE(f.submit(2, tokens_from(2, 20), 30, {.num_samples = 3, .seed = 42}));
  f.step();
  f.step();
  CHECK(f.scheduler.cancel(RequestId{2}));
  CHECK(f.scheduler.num_running() == 0);
  CHECK(f.scheduler.num_requests() == 0);
  CHECK(f.cache.capacity().available() == 32);
  Tokens first[3];
  for (int run = 0; run < 2; ++run) {
    f.env.events.clear();
    REQUIRE(f.submit(3, tokens_from(2, 20), 12, {.num_samples = 3, .seed = 42}));
    f.run();
    for (std::uint32_t child = 0; child < 3; ++child) {
      if (run == 0) first[child] = f.text(3, child);
      CHECK(f.text(3, child) == first[child]);
    }
  }
  CHECK(first[0] != first[1]);
  CHECK(first[1] != first[2]);
}

TEST_CASE("bug.B33.a_row_that_cannot_be_sampled_ends_its_own_request", "[sched]") {
  SchedFixture f{{.num_blocks = 32, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4}};
  for (std::uint64_t id = 1; id <= 3; ++id) REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(id), 6), 8));
  f.step();
  f.step();
  REQUIRE(f.plan());
  f.seal();
  f.run_model();
  for (std::size_t i = 0; i < f.results.size(); ++i) {
    if (f.batch->samples[i].request == RequestId{2}) f.results[i].status = SampleStatus::kError;
  }
  f.scheduler.commit(f.results);
  f.run();
  CHECK(f.reason(2) == FinishReason::kError);
  CHECK(f.text(2).size() == 2);
  for (const std::uint64_t id : {1u, 3u}) CHECK(f.text(id) == f.expected(tokens_from(static_cast<TokenId>(id), 6), 8));
}

namespace {
/// Counts what it hands out.
struct CountingMemory : std::pmr::memory_resource {
  std::size_t calls = 0;
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    ++calls;
    return std::pmr::get_default_resource()->allocate(bytes, align);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
    std::pmr::get_default_resource()->deallocate(p, bytes, align);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};
}  // namespace

TEST_CASE("bug.B67.numbers_are_judged_before_anything_is_allocated_for_them", "[sched]") {
  CountingMemory memory;
  SchedFixture f{{.num_blocks = 32, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4}, {}, {.resource = &memory}};
  const std::size_t calls = memory.calls;
  const auto kind_of = [&](RequestSpec spec, std::int64_t max_new) {
    const auto result = f.submit(1, tokens_from(0, 5), max_new, spec);
    REQUIRE_FALSE(result);
    return result.error().kind;
  };
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{129}, std::int64_t{1'000'000}, std::int64_t{1} << 60}) {
    CHECK(kind_of({.num_samples = n}, 5) == RefusalKind::kBadCount);
  }
  CHECK(kind_of({.num_samples = 5, .beam = true}, 5) == RefusalKind::kBadCount);  // wider than a step has rows
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    CHECK(kind_of({}, n) == RefusalKind::kBadCount);
  }
  CHECK(f.submit(1, {}, 5).error().kind == RefusalKind::kEmptyPrompt);
  CHECK(memory.calls == calls);
  const Ticket ticket = f.submit(1, tokens_from(0, 5), std::numeric_limits<std::int64_t>::max()).value();
  CHECK(ticket.max_new_tokens == 32 * 4 - 5 + 1);
  CHECK(memory.calls > calls);
}
