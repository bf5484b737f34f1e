// One suite for every order, the users' ones of example 02 too: the key, who goes first, that all end, and nobody starves.
#include "sched/policies_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

#define KVPAGE_ALL_ORDERS                                                                                                      \
  Fcfs, PriorityOrder, Shortest, LongestPrefix, FairShare, DeadlineOrder, StaticBatch, own::AgedShortest, own::WeightedShare, \
      own::LeastToCompute

namespace {

void draw_request(Request& r, std::mt19937_64& rng) {
  const auto draw = [&](std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n)); };
  r.prompt_tokens = 1 + draw(1000);
  r.tokens.assign(static_cast<std::size_t>(r.prompt_tokens), 7);
  r.max_new_tokens = 1 + draw(1000);
  r.arrival_ns = draw(1'000'000'000'000);
  r.priority = draw(5);
  r.tenant = static_cast<std::uint32_t>(draw(4));
  r.start_by_ns = draw(2) * draw(2'000'000'000'000);
  r.finish_by_ns = draw(2) * draw(2'000'000'000'000);
}

/// Everything that changes while a request lives.
void make_progress(Request& r, std::mt19937_64& rng) {
  r.tokens.push_back(9);
  r.num_computed = r.num_stored = r.max_computed = static_cast<std::int64_t>(rng() % 1000);
  r.state = RequestState::kRunning;
  r.waiting_since_ns = static_cast<std::int64_t>(rng() % 1000);
  r.cached_tokens = r.recomputed_tokens = r.bypassed = static_cast<std::int64_t>(rng() % 100);
  r.has_seq = !r.has_seq;
}

constexpr BlockAllocatorConfig kRoomy{.num_blocks = 512, .block_size = 4, .max_seqs = 8};

/// Keys are unique, and what they were at submission.
void keys_stay(const AnyOrder& order) {
  SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 20, .max_seqs = 3, .max_chunk_tokens = 9},
                 with_order(order)};
  std::map<std::uint64_t, RankKey> keys;
  run_mixed(f, mixed_requests(3, 40), 3, [&] {
    std::set<std::pair<std::int64_t, std::uint64_t>> seen;
    for (std::uint64_t id = 0; id < 40; ++id) {
      const Request* r = f.scheduler.find(RequestId{id});
      if (r == nullptr) continue;
      CHECK(seen.emplace(r->key.rank, r->key.serial).second);
      CHECK(keys.emplace(id, r->key).first->second == r->key);
    }
  });
  CHECK(keys.size() == 40);
}

/// True when the order puts `first` before `other`, told without the walk of the queue.
bool goes_before(const SchedFixture& f, const AnyOrder& order, const std::vector<MixedRequest>& requests, std::uint64_t first,
                 std::uint64_t other) {
  const bool by_key = f.scheduler.find(RequestId{first})->key < f.scheduler.find(RequestId{other})->key;
  const auto charge = [&](std::uint64_t id) { return f.scheduler.tenant_charge(requests[id].spec.tenant); };
  const auto cached = [&](std::uint64_t id) { return f.cache.match({.tokens = requests[id].prompt}).num_tokens; };
  const auto by_hit = [&](std::uint64_t id) { return order.rank_by_hit(f.scheduler.find(RequestId{id})->view(), cached(id)); };
  if (charge(first) != charge(other)) return charge(first) < charge(other);
  if (order.look_ahead() > 0 && by_hit(first) != by_hit(other)) return by_hit(first) < by_hit(other);
  return by_key;
}

/// Everybody is there from the start, and blocks abound: nobody starts while somebody before it in the order waits.
void serves_as_told(const AnyOrder& order, std::int64_t max_seqs, std::uint64_t seed) {
  SchedFixture f{kRoomy, {.budget_tokens = 128, .max_seqs = max_seqs}, with_order(order)};
  const auto requests = mixed_requests(seed, 25);
  std::set<std::uint64_t> waiting;
  for (std::uint64_t id = 0; id < requests.size(); ++id) {
    REQUIRE(f.submit(id, requests[id].prompt, requests[id].max_new, requests[id].spec));
    waiting.insert(id);
  }
  run_looking(f, [&] {
    std::vector<std::uint64_t> started;
    for (const PlannedOwner& owner : f.batch->owners) {
      if (waiting.erase(owner.request.value) > 0) started.push_back(owner.request.value);
    }
    for (const std::uint64_t first : started) {
      for (const std::uint64_t other : waiting) {
        INFO(other << " waits while " << first << " starts");
        CHECK(goes_before(f, order, requests, first, other));
      }
    }
  });
  CHECK(waiting.empty());
}

/// Steps until request 0 gets rows while more attractive ones keep coming; -1 when it never does within 400 steps.
std::int64_t steps_until_served(const AnyOrder& order, std::int64_t starve_after_ns) {
  SchedFixture f{kRoomy, {.budget_tokens = 64, .max_seqs = 1, .starve_after_ns = starve_after_ns}, with_order(order)};
  const auto lure = [&](std::uint64_t id) {
    REQUIRE(f.submit(id, tokens_from(0, 8), 3, {.tenant = static_cast<std::uint32_t>(id), .finish_by_ns = 900'000'000'000}));
  };
  lure(1), lure(2);
  f.step();  // the prompt of the others is cached
  REQUIRE(f.submit(0, tokens_from(50, 40), 40, {.priority = 3, .tenant = 1}));
  std::uint64_t next = 3;
  for (std::int64_t step = 0; step < 400; ++step) {
    f.env.time_ns += 1'000'000;
    while (f.scheduler.num_waiting() < 4) lure(next++);
    REQUIRE(f.plan());
    const bool served = f.rows_of(0) > 0;
    f.seal();
    f.commit();
    if (served) return step;
  }
  return -1;
}

}  // namespace

TEMPLATE_TEST_CASE("sched.policies.order.key_is_static_and_total", "[sched]", KVPAGE_ALL_ORDERS) {
  std::mt19937_64 rng{11};
  const TestType order{};
  const TestType copy = order;
  for (int i = 0; i < 200; ++i) {
    Request r{std::pmr::get_default_resource()};
    draw_request(r, rng);
    const std::int64_t rank = order.rank(r.view());
    const std::int64_t priority = order.priority(r.view());
    make_progress(r, rng);
    CHECK(order.rank(r.view()) == rank);
    CHECK(order.priority(r.view()) == priority);
    CHECK((copy.rank(r.view()) == rank && copy.priority(r.view()) == priority));
    CHECK((RankKey{rank, 1} < RankKey{rank, 2}));
  }
  keys_stay(order);
}

TEST_CASE("sched.policies.order.priorities_never_overflow_the_clock", "[sched]") {
  constexpr std::int64_t kYear = 31'557'600'000'000'000;
  Request early{std::pmr::get_default_resource()}, late{std::pmr::get_default_resource()};
  early.arrival_ns = kYear, late.arrival_ns = 2 * kYear;
  for (const std::int64_t age_ns : {std::int64_t{0}, std::int64_t{1}, std::int64_t{10'000'000'000}, kYear, PriorityOrder::kNeverAges - 1}) {
    PriorityOrder order;
    order.age_ns = age_ns;
    std::int64_t last = 0;
    for (const std::int64_t priority : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{999}, kMaxPriority}) {
      early.priority = late.priority = priority;
      INFO("age " << age_ns << " priority " << priority);
      CHECK(order.rank(early.view()) >= last);
      CHECK(order.rank(late.view()) >= order.rank(early.view()));
      last = order.rank(early.view());
    }
  }
  PriorityOrder strict;
  strict.age_ns = PriorityOrder::kNeverAges;
  early.priority = 2, late.priority = 1;
  CHECK(strict.rank(late.view()) < strict.rank(early.view()));
  late.priority = 2;
  CHECK(strict.rank(late.view()) == strict.rank(early.view()));  // by submission
}

TEMPLATE_TEST_CASE("sched.policies.order.serves_as_told", "[sched]", KVPAGE_ALL_ORDERS) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    serves_as_told(TestType{}, 1, seed);
    if (!CacheAwareOrder<TestType>) serves_as_told(TestType{}, 4, seed);  // those are judged by what is cached when they start
  }
}

TEMPLATE_TEST_CASE("sched.policies.order.every_request_ends_under_every_admission", "[sched]", KVPAGE_ALL_ORDERS) {
  for (std::size_t admission = 0; admission < AnyAdmission::kNumKinds; ++admission) {
    SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 20, .max_seqs = 5, .max_chunk_tokens = 9},
                   {TestType{}, AnyAdmission::of(admission), {}}};
    run_mixed(f, mixed_requests(admission, 40), admission, [&] {
      for (std::uint64_t id = 0; id < 40; ++id) {
        const Request* r = f.scheduler.find(RequestId{id});
        if (r != nullptr) CHECK(r->bypassed <= f.scheduler.config().max_bypasses);
      }
    });
  }
}

TEMPLATE_TEST_CASE("sched.policies.order.starving_goes_first", "[sched]", KVPAGE_ALL_ORDERS) {
  // Waiting 50 steps, then the request that runs (3 steps, or 40 once it is our own turn) ends, and the next row is its own.
  const std::int64_t steps = steps_until_served(TestType{}, 50'000'000);
  INFO("served after " << steps << " steps");
  CHECK(steps >= 0);
  CHECK(steps <= 50 + 3 + 1);
  constexpr std::int64_t kNever = 1'000'000'000'000;
  if (std::is_same_v<TestType, Fcfs> || std::is_same_v<TestType, StaticBatch>) {
    CHECK(steps_until_served(TestType{}, kNever) <= 6);
  } else if (!AccountingOrder<TestType>) {
    CHECK(steps_until_served(TestType{}, kNever) == -1);  // it is the guard that serves it
  }
}

TEMPLATE_TEST_CASE("sched.policies.order.overtaken_at_most_sixteen_times", "[sched]", KVPAGE_ALL_ORDERS) {
  SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 64, .max_seqs = 4},
                 {TestType{}, AnyAdmission{ReservePrompt{}}, {}}};
  REQUIRE(f.submit(0, tokens_from(0, 8), 50));
  f.step();
  REQUIRE(f.submit(1, tokens_from(60, 56), 2));  // 14 blocks, while the first one needs up to 15
  for (std::uint64_t id = 2; id < 62; ++id) {
    REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(id), 3), 1));
    f.env.time_ns += 1'000'000;
    if (!f.step()) break;
    const Request* big = f.scheduler.find(RequestId{1});
    if (big == nullptr) break;
    CHECK(big->bypassed <= 16);
  }
  const bool by_arrival = std::is_same_v<TestType, Fcfs> || std::is_same_v<TestType, PriorityOrder>;
  if (by_arrival) CHECK(f.scheduler.stats().bypasses == 16);
  run_looking(f, [] {});
  CHECK(f.text(1).size() == 2);
}

TEMPLATE_TEST_CASE("sched.policies.order.equals_never_preempt_each_other", "[sched]", KVPAGE_ALL_ORDERS) {
  SchedFixture f{kRoomy, {.budget_tokens = 64, .max_seqs = 2}, with_order(TestType{})};
  REQUIRE(f.submit(0, tokens_from(50, 30), 20));
  REQUIRE(f.submit(1, tokens_from(20, 30), 20));
  f.step();
  for (std::uint64_t id = 2; id < 8; ++id) {  // shorter, with deadlines, of other tenants: before the others in every order
    REQUIRE(f.submit(id, tokens_from(50, 4), 2, {.tenant = static_cast<std::uint32_t>(id), .finish_by_ns = 900'000'000'000}));
    REQUIRE(f.plan());
    CHECK((f.rows_of(0) == 1 && f.rows_of(1) == 1));
    f.seal();
    f.commit();
  }
  run_looking(f, [] {});
  CHECK(f.scheduler.stats().preempted_keep + f.scheduler.stats().preempted_recompute == 0);
}
