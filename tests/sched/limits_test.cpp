// Typed refusals, deadlines, guards against starvation, and what cancel, drop and abort leave behind.
#include "sched/sched_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {
const BlockAllocatorConfig kPool{.num_blocks = 16, .block_size = 4, .max_seqs = 8};

struct Refused {
  RefusalKind kind;
  std::int64_t value, limit;
};
template <class Result>
void check_refused(const Result& result, const Refused& expected) {
  REQUIRE_FALSE(result);
  INFO(describe(result.error().kind));
  CHECK(result.error().kind == expected.kind);
  CHECK(result.error().value == expected.value);
  CHECK(result.error().limit == expected.limit);
}
}  // namespace

TEST_CASE("sched.limits.every_refusal_says_which_number_and_which_limit", "[sched]") {
  SchedulerConfig config{.budget_tokens = 32, .max_seqs = 4, .context_limit = 60, .max_waiting = 3, .max_waiting_tokens = 60,
                         .max_tenant_requests = 2};
  SchedFixture f{kPool, config};
  check_refused(f.submit(1, {}, 4), {RefusalKind::kEmptyPrompt, 0, 1});
  check_refused(f.submit(1, tokens_from(0, 4), 4, {.num_samples = 129}), {RefusalKind::kBadCount, 129, 128});
  check_refused(f.submit(1, tokens_from(0, 4), 0), {RefusalKind::kBadCount, 0, 1});
  check_refused(f.submit(1, tokens_from(0, 60), 4), {RefusalKind::kContextLimit, 60, 60});
  REQUIRE(f.submit(1, tokens_from(0, 10), 4, {.tenant = 5}));
  check_refused(f.submit(1, tokens_from(0, 4), 4), {RefusalKind::kDuplicateId, 1, 0});
  check_refused(f.submit(2, tokens_from(0, 43), 4), {RefusalKind::kQueueTokensFull, 61, 60});
  REQUIRE(f.submit(2, tokens_from(0, 10), 4, {.tenant = 5}));
  check_refused(f.submit(3, tokens_from(0, 4), 4, {.tenant = 5}), {RefusalKind::kTenantFull, 3, 2});
  REQUIRE(f.submit(3, tokens_from(0, 10), 4));
  check_refused(f.submit(4, tokens_from(0, 4), 4), {RefusalKind::kQueueFull, 4, 3});
  f.scheduler.shut_down();
  check_refused(f.submit(4, tokens_from(0, 4), 4), {RefusalKind::kShuttingDown, 1, 0});
  f.run();

  SchedFixture g{kPool, {.budget_tokens = 32, .max_seqs = 4}};
  check_refused(g.submit(1, tokens_from(0, 65), 4), {RefusalKind::kNeverFits, 65, 64});
  check_refused(g.submit(1, tokens_from(0, 62), 4, {.num_samples = 4, .beam = true}), {RefusalKind::kNeverFits, 15 + 4 * 2, 16});
  CHECK(g.submit(1, tokens_from(0, 40), 40, {.num_samples = 2, .beam = true}).value().limit_reason == FinishReason::kCapacity);
  g.scheduler.cancel(RequestId{1});
}

TEST_CASE("sched.limits.a_full_queue_is_bounded_in_memory", "[sched]") {
  class Counting : public std::pmr::memory_resource {
   public:
    std::size_t bytes = 0;

   private:
    void* do_allocate(std::size_t size, std::size_t align) override {
      bytes += size;
      return std::pmr::get_default_resource()->allocate(size, align);
    }
    void do_deallocate(void* p, std::size_t size, std::size_t align) override {
      bytes -= size;
      std::pmr::get_default_resource()->deallocate(p, size, align);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
  };
  constexpr std::int64_t kLimit = 100'000;
  for (const std::int64_t n : {1, 8, 100}) {
    for (const bool beam : {false, true}) {
      const std::int64_t each = (100 + 400) * n * (beam && n > 1 ? 2 : 1);
      Counting memory;
      SchedFixture f{{.num_blocks = 20'000, .block_size = 4, .max_seqs = 128},
                     {.budget_tokens = 256, .max_seqs = 128, .max_waiting_tokens = kLimit}, {}, {.resource = &memory}};
      std::int64_t id = 0;
      const auto submit = [&] {
        return f.submit(static_cast<std::uint64_t>(id), tokens_from(0, 100), 400, {.num_samples = n, .beam = beam});
      };
      auto ticket = submit();
      for (; ticket; ticket = submit()) ++id;
      INFO(n << " answers, beam " << beam << ": " << id << " requests, " << memory.bytes << " bytes");
      CHECK(id == kLimit / each);
      check_refused(ticket, {RefusalKind::kQueueTokensFull, (id + 1) * each, kLimit});
      const std::size_t records = static_cast<std::size_t>(id * n + 256) * 2 * sizeof(Request);
      CHECK(memory.bytes <= static_cast<std::size_t>(kLimit) * sizeof(TokenId) + records);
      for (std::int64_t done = 0; done < id; ++done) CHECK(f.scheduler.cancel(RequestId{static_cast<std::uint64_t>(done)}));
      CHECK(submit().has_value());  // all of it was given back
    }
  }
  SchedFixture f{kPool, {.budget_tokens = 32, .max_seqs = 4, .max_waiting_tokens = 40}};
  const auto never = f.submit(1, tokens_from(0, 5), 6, {.num_samples = 4});
  check_refused(never, {RefusalKind::kQueueTokensFull, 44, 40});
  CHECK(std::string(describe(never.error())).find("alone") != std::string::npos);  // later does not help
}

TEST_CASE("sched.limits.a_deadline_that_cannot_be_met_is_refused_if_asked", "[sched]") {
  TestEnv env;
  env.step_costs = {.prefill_ns_per_token = 100, .decode_ns_per_token = 1'000};
  env.time_ns = 50;
  for (const bool reject : {false, true}) {
    SchedFixture f{kPool, {.budget_tokens = 32, .max_seqs = 4, .reject_infeasible = reject}, {}, env};
    const auto late = f.submit(1, tokens_from(0, 9), 4, {.finish_by_ns = 50 + 4'900});  // 9 rows and 4 tokens take as long
    if (reject) check_refused(late, {RefusalKind::kInfeasible, 4'900, 4'900});
    CHECK(late.has_value() == !reject);
    CHECK(f.submit(2, tokens_from(0, 9), 4, {.finish_by_ns = 50 + 4'901}));
    CHECK(f.submit(3, tokens_from(0, 9), 4));
    f.run();
    const auto cached = f.submit(4, tokens_from(0, 9), 4, {.finish_by_ns = 50 + 4'101});  // 8 of the rows are cached
    CHECK(cached.has_value());
    if (reject) check_refused(f.submit(5, tokens_from(0, 9), 4, {.finish_by_ns = 40}), {RefusalKind::kInfeasible, 4'100, -10});
    f.run();
  }
}

TEST_CASE("sched.limits.numbers_that_no_request_can_have_are_refused", "[sched]") {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();
  const Policies priorities{AnyOrder{PriorityOrder{}}, {}, {}};
  for (const bool reject : {false, true}) {
    SchedFixture f{kPool, {.budget_tokens = 32, .max_seqs = 4, .reject_infeasible = reject}, priorities};
    f.env.time_ns = 5;
    for (const std::int64_t bad : {std::int64_t{-1}, kFirst}) {
      const auto refused = f.submit(1, tokens_from(0, 4), 4, {.priority = bad});
      check_refused(refused, {RefusalKind::kBadParameter, bad, 0});
      CHECK(std::string(describe(refused.error())) == "priority must be in [0, 1000000], where 0 is the most urgent");
      check_refused(f.submit(1, tokens_from(0, 4), 4, {.start_by_ns = bad}), {RefusalKind::kBadParameter, bad, 0});
      check_refused(f.submit(1, tokens_from(0, 4), 4, {.finish_by_ns = bad}), {RefusalKind::kBadParameter, bad, 0});
    }
    for (const std::int64_t bad : {kMaxPriority + 1, kLast}) {
      check_refused(f.submit(1, tokens_from(0, 4), 4, {.priority = bad}), {RefusalKind::kBadParameter, bad, kMaxPriority});
    }
    REQUIRE(f.submit(1, tokens_from(0, 4), 4, {.priority = kMaxPriority, .start_by_ns = kLast, .finish_by_ns = kLast}));
    check_refused(f.scheduler.set_priority(RequestId{1}, -1), {RefusalKind::kBadParameter, -1, 0});
    check_refused(f.scheduler.set_priority(RequestId{1}, kLast), {RefusalKind::kBadParameter, kLast, kMaxPriority});
    CHECK(f.scheduler.find(RequestId{1})->priority == kMaxPriority);
    CHECK(f.scheduler.set_priority(RequestId{1}, 3).value());
    CHECK_FALSE(f.scheduler.set_priority(RequestId{2}, 3).value());
    f.run();
  }
}

TEST_CASE("sched.limits.a_refused_parameter_names_itself", "[sched]") {
  const Refusal refusal{RefusalKind::kBadParameter, 7, 5, "tokens", "logit_bias names a token outside of the vocabulary"};
  CHECK(std::string(describe(refusal)) == "logit_bias names a token outside of the vocabulary");
  CHECK(std::string(describe(Refusal{RefusalKind::kQueueFull, 4, 3, "requests"})) == describe(RefusalKind::kQueueFull));
  for (std::int64_t kind = 0; kind < kNumRefusalKinds; ++kind) {
    CHECK(std::string(describe(static_cast<RefusalKind>(kind))) != "unknown refusal");
  }
}

TEST_CASE("sched.limits.configurations_that_cannot_work_are_named", "[sched]") {
  const auto error_of = [](const SchedulerConfig& config) {
    try {
      config.check();
    } catch (const ConfigError& error) {
      return std::string(error.what()) + ": " + std::to_string(error.value()) + ", " + std::to_string(error.limit());
    }
    return std::string();
  };
  CHECK(error_of({}).empty());
  CHECK(error_of({.budget_tokens = 16, .max_seqs = 16}) == "budget_tokens must be at least max_seqs + chunk_align: 16, 17");
  CHECK(error_of({.max_seqs = 0}) == "max_seqs must be in [1, 2^20]: 0, 1");
  CHECK(error_of({.max_seqs = 1 << 21}) == "max_seqs must be in [1, 2^20]: 2097152, 1048576");
  CHECK(error_of({.max_waiting = 0}) == "max_waiting must be in [1, 2^24]: 0, 1");
  CHECK(error_of({.max_waiting = 1 << 25}) == "max_waiting must be in [1, 2^24]: 33554432, 16777216");
  CHECK(error_of({.max_samples = 0}) == "max_samples must be in [1, 1024]: 0, 1");
  CHECK(error_of({.max_bypasses = -1}) == "max_bypasses must not be negative: -1, 0");
  CHECK(error_of({.max_examined = 0}) == "max_examined must be in [1, 2^20]: 0, 1");
  CHECK(error_of({.shield_after = 0}) == "shield_after must be at least 1: 0, 1");
  CHECK(error_of({.max_aborts = -2}) == "max_aborts must be at least 1: -2, 1");
  CHECK(error_of({.max_chunk_tokens = 3, .chunk_align = 4}) == "max_chunk_tokens must be at least chunk_align: 3, 4");
  CHECK_THROWS_AS((SchedFixture{kPool, {.budget_tokens = 64, .max_seqs = 9}}), ConfigError);  // the cache has 8 sequences
  CHECK_THROWS_AS((SchedFixture{{.num_blocks = 1, .block_size = 4, .max_seqs = 1, .num_groups = 2}, {.max_seqs = 1}}), ConfigError);
}

TEST_CASE("sched.limits.deadlines_end_waiting_and_running_requests", "[sched]") {
  SchedFixture f{kPool, {.budget_tokens = 32, .max_seqs = 1}};
  REQUIRE(f.submit(1, tokens_from(0, 4), 30, {.finish_by_ns = 100}));
  REQUIRE(f.submit(2, tokens_from(4, 4), 5, {.start_by_ns = 50}));
  REQUIRE(f.submit(3, tokens_from(8, 4), 5, {.start_by_ns = 150}));
  f.step();
  f.step();
  f.env.time_ns = 60;
  f.step();
  CHECK(f.reason(2) == FinishReason::kDeadline);
  CHECK(f.text(2).empty());
  f.env.time_ns = 100;
  f.step();
  CHECK(f.reason(1) == FinishReason::kDeadline);
  CHECK(f.text(1) == f.expected(tokens_from(0, 4), 3));  // its partial text
  f.env.time_ns = 200;  // 3 has started in time
  f.run();
  CHECK(f.reason(3) == FinishReason::kLength);
}

TEST_CASE("sched.limits.a_starving_request_goes_first", "[sched]") {
  const Policies shortest{AnyOrder{Shortest{}}, {}, {}};
  for (const bool guard : {false, true}) {
    SchedFixture f{kPool, {.budget_tokens = 32, .max_seqs = 1, .starve_after_ns = guard ? 50 : 1'000'000}, shortest};
    REQUIRE(f.submit(1, tokens_from(0, 4), 4));
    f.step();
    REQUIRE(f.submit(2, tokens_from(40, 20), 9));  // long: every newcomer is shorter
    std::uint64_t id = 10;
    for (int i = 0; i < 100; ++i) {
      REQUIRE(f.submit(id++, tokens_from(static_cast<TokenId>(i % 7), 2), 1));
      ++f.env.time_ns;
      f.step();
    }
    CHECK(f.text(2).empty() == !guard);
    f.run();
  }
}

TEST_CASE("sched.limits.another_priority_keeps_what_was_waited", "[sched]") {
  SchedFixture f{kPool, {.budget_tokens = 32, .max_seqs = 1, .starve_after_ns = 50}, {AnyOrder{PriorityOrder{}}, {}, {}}};
  REQUIRE(f.submit(1, tokens_from(0, 4), 3));
  REQUIRE(f.submit(2, tokens_from(20, 4), 3, {.priority = 5}));
  f.step();
  f.env.time_ns = 30;
  REQUIRE(f.submit(3, tokens_from(40, 4), 3, {.priority = 5}));
  CHECK(f.scheduler.set_priority(RequestId{2}, 6).value());
  f.env.time_ns = 51;  // only 2 has waited for more than 50
  REQUIRE(f.submit(4, tokens_from(60, 4), 3));
  while (f.reason(1) == FinishReason::kNone) f.step();
  f.step();
  CHECK(f.text(2).size() == 1);
  CHECK(f.text(4).empty());
  f.run();
}

TEST_CASE("sched.limits.a_request_without_blocks_is_overtaken_max_bypasses_times", "[sched]") {
  SchedFixture f{kPool, {.budget_tokens = 64, .max_seqs = 8, .max_bypasses = 5}, {{}, AnyAdmission{ReservePrompt{}}, {}}};
  REQUIRE(f.submit(1, tokens_from(0, 30), 20));
  f.step();
  REQUIRE(f.submit(2, tokens_from(40, 40), 2));  // 10 of 16 blocks: not while 1 has 8
  int overtaken = 0;
  for (std::uint64_t id = 10; id < 30; ++id) {
    REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(id), 2), 1));
    REQUIRE(f.plan());
    const bool second_waits = f.scheduler.find(RequestId{2}) != nullptr && f.scheduler.find(RequestId{2})->num_computed == 0;
    overtaken += second_waits && f.rows_of(2) == 0 && f.rows_of(id) > 0 ? 1 : 0;
    f.seal();
    f.commit();
  }
  CHECK(overtaken == 5);
  f.run();
  CHECK(f.text(2) == f.expected(tokens_from(40, 40), 2));
}

TEST_CASE("sched.limits.cancel_in_every_state_frees_the_blocks_within_one_step", "[sched]") {
  const Policies priorities{AnyOrder{PriorityOrder{}}, {}, {}};
  for (const char* state : {"waiting", "parked", "running", "plan open", "sealed", "sealed and aborted"}) {
    INFO(state);
    SchedFixture f{kPool, {.budget_tokens = 32, .max_seqs = 1}, priorities};
    const std::string wanted = state;
    REQUIRE(f.submit(1, tokens_from(0, 9), 9, {.priority = 5}));
    if (wanted != "waiting") f.step();
    if (wanted == "parked") {
      REQUIRE(f.submit(2, tokens_from(30, 5), 3, {.priority = 0}));
      f.step();
      REQUIRE(f.scheduler.find(RequestId{1})->state == RequestState::kParked);
    }
    const bool opens = wanted == "plan open" || wanted == "sealed" || wanted == "sealed and aborted";
    if (opens) REQUIRE(f.plan());
    if (opens && wanted != "plan open") f.seal();
    CHECK(f.scheduler.cancel(RequestId{1}));
    CHECK(f.scheduler.cancel(RequestId{1}) == opens);  // still finishing: again is fine
    if (wanted == "plan open") f.scheduler.drop();
    if (wanted == "sealed") f.commit();
    if (wanted == "sealed and aborted") CHECK(f.scheduler.abort().ok());
    CHECK_FALSE(f.scheduler.cancel(RequestId{1}));
    CHECK(f.reason(1) == FinishReason::kCancelled);
    CHECK(f.text(1).size() == (wanted == "waiting" ? 0u : 1u));  // the result of its last step is dropped
    f.run();
  }
}

TEST_CASE("sched.limits.a_dropped_plan_never_was", "[sched]") {
  SchedFixture f{kPool, {.budget_tokens = 32, .max_seqs = 4, .max_chunk_tokens = 7}};
  for (std::uint64_t id = 0; id < 5; ++id) REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(20 * id), 12), 10));
  int steps = 0;
  do {
    const std::uint64_t before = f.cache.digest();
    for (int i = 0; i < 2; ++i) {
      if (f.plan()) f.scheduler.drop();
      CHECK(f.cache.digest() == before);
    }
    ++steps;
  } while (f.step());
  CHECK(steps > 10);
  CHECK(f.scheduler.stats().preempted_recompute > 0);
  for (std::uint64_t id = 0; id < 5; ++id) CHECK(f.text(id) == f.expected(tokens_from(static_cast<TokenId>(20 * id), 12), 10));
}
