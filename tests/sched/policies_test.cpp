// One suite for every order and one for every admission: who goes first, that all end, and the bounds each of them promises.
#include "sched/sched_fixture.hpp"

#include <random>

using namespace kvpage;
using namespace kvpage_test;

namespace {

const char* const kOrders[] = {"Fcfs", "PriorityOrder", "Shortest", "LongestPrefix", "FairShare", "DeadlineOrder", "StaticBatch"};
const char* const kAdmissions[] = {"ReserveChunk", "ReservePrompt", "ReserveFull", "LearnedGrowth"};
constexpr std::size_t kFcfs = 0, kPriority = 1, kShortest = 2, kLongestPrefix = 3, kFairShare = 4, kDeadline = 5, kStaticBatch = 6;
constexpr std::size_t kReserveFull = 2;

Policies policies_of(std::size_t order, std::size_t admission) { return {AnyOrder::of(order), AnyAdmission::of(admission), {}}; }

/// A mixed load in a small pool; every text is checked.
void mixed_load(SchedFixture& f, std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  std::vector<Tokens> prompts;
  for (std::uint64_t id = 0; id < 40; ++id) {
    prompts.push_back(tokens_from(static_cast<TokenId>(rng() % 6), 1 + rng() % 30));
    const RequestSpec spec{.priority = static_cast<std::int64_t>(rng() % 4), .tenant = static_cast<std::uint32_t>(rng() % 3),
                           .finish_by_ns = rng() % 2 == 0 ? 0 : 1'000'000'000'000 + static_cast<std::int64_t>(rng() % 1000)};
    REQUIRE(f.submit(id, prompts.back(), 1 + static_cast<std::int64_t>(id % 9), spec));
    f.env.time_ns += 1'000'000;
    if (rng() % 3 == 0) f.step();
  }
  while (f.plan()) {
    CHECK(f.scheduler.leader_advanced());
    f.seal();
    f.commit();
  }
  REQUIRE(f.scheduler.num_requests() == 0);
  for (std::uint64_t id = 0; id < 40; ++id) CHECK(f.text(id) == f.expected(prompts[id], 1 + static_cast<std::int64_t>(id % 9)));
}

/// Ids in the order in which they first got rows, one sequence at a time.
std::vector<std::uint64_t> served(SchedFixture& f) {
  std::vector<std::uint64_t> ids;
  while (f.plan()) {
    for (const PlannedOwner& owner : f.batch->owners) {
      if (ids.empty() || ids.back() != owner.request.value) ids.push_back(owner.request.value);
    }
    f.seal();
    f.commit();
  }
  return ids;
}

}  // namespace

TEST_CASE("sched.policies.every_order_with_every_admission_ends_every_request", "[sched]") {
  for (std::size_t order = 0; order < AnyOrder::kNumKinds; ++order) {
    for (std::size_t admission = 0; admission < AnyAdmission::kNumKinds; ++admission) {
      INFO(kOrders[order] << " with " << kAdmissions[admission]);
      SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 20, .max_seqs = 5, .max_chunk_tokens = 9},
                policies_of(order, admission)};
      mixed_load(f, order * 7 + admission);
      if (admission == kReserveFull && order != kPriority) CHECK(f.scheduler.stats().preempted_recompute == 0);
      CHECK(f.cache.capacity().available() == 16);
    }
  }
}

TEST_CASE("sched.policies.who_goes_first", "[sched]") {
  const BlockAllocatorConfig pool{.num_blocks = 64, .block_size = 4, .max_seqs = 2};
  const SchedulerConfig one{.budget_tokens = 64, .max_seqs = 1};
  const auto order_of = [&](std::size_t order, const std::vector<RequestSpec>& specs) {
    SchedFixture f{pool, one, policies_of(order, 0)};
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::size_t length = 8 + static_cast<std::size_t>(specs[i].seed.value_or(0));
      const Tokens prompt = tokens_from(static_cast<TokenId>(10 * specs[i].tenant), length);
      REQUIRE(f.submit(i, prompt, 2, specs[i]));
      ++f.env.time_ns;
    }
    return served(f);
  };
  using Ids = std::vector<std::uint64_t>;
  CHECK(order_of(kFcfs, {{.priority = 3}, {.priority = 0}, {.priority = 1}}) == Ids{0, 1, 2});
  CHECK(order_of(kPriority, {{.priority = 3}, {.priority = 0}, {.priority = 1}}) == Ids{1, 2, 0});
  CHECK(order_of(kShortest, {{.seed = 9}, {.seed = 1}, {.seed = 4}}) == Ids{1, 2, 0});
  CHECK(order_of(kDeadline, {{}, {.finish_by_ns = 900}, {.finish_by_ns = 500}}) == Ids{2, 1, 0});
  CHECK(order_of(kStaticBatch, {{}, {}, {}}) == Ids{0, 1, 2});
  CHECK(order_of(kFairShare, {{.tenant = 1}, {.tenant = 1}, {.tenant = 2}}) == Ids{0, 2, 1});
  CHECK(order_of(kLongestPrefix, {{.tenant = 1}, {.tenant = 2}, {.tenant = 1}}) == Ids{0, 2, 1});  // tenant 1's prompt is cached then
}

TEST_CASE("sched.policies.waiting_makes_urgent", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 1}, policies_of(kPriority, 0)};
  REQUIRE(f.submit(0, tokens_from(0, 4), 40, {.priority = 0}));
  f.step();
  REQUIRE(f.submit(1, tokens_from(1, 4), 2, {.priority = 3}));
  f.env.time_ns += 31'000'000'000;
  REQUIRE(f.submit(2, tokens_from(2, 4), 2, {.priority = 0}));  // comes 31 s later: worth three classes
  CHECK(served(f) == std::vector<std::uint64_t>{0, 1, 2});
}

TEST_CASE("sched.policies.static_batch_admits_when_the_last_one_has_ended", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 2}, policies_of(kStaticBatch, 0)};
  for (std::uint64_t id = 0; id < 4; ++id) REQUIRE(f.submit(id, tokens_from(0, 4), id == 0 ? 10 : 2));
  for (int i = 0; i < 10; ++i) {
    REQUIRE(f.plan());
    CHECK(f.rows_of(2) == 0);
    f.seal();
    f.commit();
  }
  REQUIRE(f.plan());
  CHECK(f.rows_of(2) == 1);  // the rest of its prompt is cached
  CHECK(f.rows_of(3) == 1);
  f.scheduler.drop();
  f.run();
}

TEST_CASE("sched.policies.two_backlogged_tenants_get_equal_work", "[sched]") {
  SchedFixture f{{.num_blocks = 32, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 32, .max_seqs = 3}, policies_of(kFairShare, 0)};
  std::mt19937_64 rng{7};
  std::uint64_t id = 0;
  const auto feed = [&](std::uint32_t tenant, std::size_t longest) {
    Tokens prompt(1 + rng() % longest);
    for (TokenId& token : prompt) token = static_cast<TokenId>(rng() % 90);
    REQUIRE(f.submit(id++, prompt, 1 + static_cast<std::int64_t>(rng() % 12), {.tenant = tenant}));
  };
  constexpr std::int64_t kLongest = 40;
  const std::int64_t bound = 2 * std::max<std::int64_t>(kLongest, 2 * 32 * 4);
  for (int i = 0; i < 10; ++i) feed(1, kLongest), feed(2, 4);
  for (int step = 0; step < 3000; ++step) {
    f.step();
    while (f.scheduler.num_requests() < 24) feed(1, kLongest), feed(2, 4), feed(2, 4), feed(2, 4);
    const std::int64_t gap = f.scheduler.tenant_charge(1) - f.scheduler.tenant_charge(2);
    REQUIRE(std::abs(gap) <= bound);
  }
  CHECK(f.scheduler.tenant_charge(1) > 5000);
}

TEST_CASE("sched.policies.an_absent_tenant_gets_no_credit", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 32, .max_seqs = 2}, policies_of(kFairShare, 0)};
  for (std::uint64_t id = 0; id < 20; ++id) REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(id), 10), 5, {.tenant = 1}));
  for (int i = 0; i < 20; ++i) f.step();
  REQUIRE(f.submit(100, tokens_from(50, 4), 2, {.tenant = 2}));
  CHECK(f.scheduler.tenant_charge(2) == f.scheduler.tenant_charge(1));
  f.run();
}

TEST_CASE("sched.policies.offline_work_yields_to_urgent_work", "[sched]") {
  SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 32, .max_seqs = 4}, policies_of(kPriority, 0)};
  for (std::uint64_t id = 0; id < 6; ++id) REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(10 * id), 10), 8, {.priority = 50}));
  for (int i = 0; i < 3; ++i) f.step();
  REQUIRE(f.scheduler.num_running() >= 3);
  for (std::uint64_t id = 10; id < 13; ++id) {
    REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(id), 12), 4, {.priority = 0}));
    REQUIRE(f.plan());
    CHECK(f.rows_of(id) > 0);  // in the very next step, although the pool or the rows are full
    f.seal();
    f.commit();
  }
  f.run();
  for (std::uint64_t id = 0; id < 6; ++id) CHECK(f.text(id) == f.expected(tokens_from(static_cast<TokenId>(10 * id), 10), 8));
}

TEST_CASE("sched.policies.learned_growth_falls_and_comes_back", "[sched]") {
  LearnedGrowth growth;
  const AdmissionView view{.prompt_blocks = 3, .growth_tokens = 100, .running_prompt_blocks = 2, .running_growth_tokens = 60,
                           .num_running = 4, .block_size = 16};
  CHECK(growth.needed_blocks(view) == 3 + 2 + 7);  // 160 tokens * 0.7 = 112
  for (int i = 0; i < 600; ++i) growth.on_step();
  CHECK(growth.ratio == Approx(0.7 * 0.14));
  growth.on_preemption(50, 400, 4);
  CHECK(growth.ratio == Approx((50 + 80) / 400.0));
  growth.on_preemption(400, 400, 10);
  CHECK(growth.ratio == 1.0);
}

TEST_CASE("sched.policies.longest_prefix_waits_for_a_prompt_in_the_making", "[sched]") {
  std::int64_t rows_of_fcfs = 0;
  for (const std::size_t order : {kFcfs, kLongestPrefix}) {
    SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4, .max_chunk_tokens = 16},
              policies_of(order, 0)};
    REQUIRE(f.submit(1, tokens_from(0, 60), 2));
    f.step();
    REQUIRE(f.submit(2, tokens_from(0, 60), 2));   // 16 cached, 60 soon
    REQUIRE(f.submit(3, tokens_from(0, 40), 2));   // 16 cached, 24 more to come: not worth a wait
    f.step();
    CHECK((f.scheduler.find(RequestId{2})->num_computed > 0) == (order == kFcfs));
    CHECK(f.scheduler.find(RequestId{3})->num_computed > 0);
    f.run();
    if (order == kFcfs) rows_of_fcfs = f.scheduler.stats().tokens;
    if (order != kFcfs) CHECK(f.scheduler.stats().tokens < rows_of_fcfs);
    CHECK(f.text(2) == f.expected(tokens_from(0, 60), 2));
  }
}
