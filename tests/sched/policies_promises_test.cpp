// What single orders promise beyond the suite of all orders: exact order, ageing, fairness, batches, yielding, waiting for a hit.
#include "sched/policies_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

/// Lengths come from the seed, prompts from the tenant.
std::vector<std::uint64_t> order_of(const AnyOrder& order, const std::vector<RequestSpec>& specs) {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 1}, with_order(order)};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::size_t length = 8 + static_cast<std::size_t>(specs[i].seed.value_or(0));
    REQUIRE(f.submit(i, tokens_from(static_cast<TokenId>(10 * specs[i].tenant), length), 2, specs[i]));
    ++f.env.time_ns;
  }
  return served(f);
}

/// What each tenant got, from plans and events alone: a prompt's token when its row ran for the first time, two for a new token.
class TenantLedger {
 public:
  explicit TenantLedger(SchedFixture& f) : f_(f) {}

  void submit(std::uint64_t id, const Tokens& prompt, std::int64_t max_new, std::uint32_t tenant) {
    REQUIRE(f_.submit(id, prompt, max_new, {.tenant = tenant}));
    requests_[id] = {tenant, static_cast<std::int64_t>(prompt.size()), 0};
    ++open_[tenant];
  }
  void step() {
    if (!f_.plan()) return;
    for (std::size_t s = 0; s < f_.batch->sequences.size(); ++s) {
      Entry& r = requests_[f_.batch->owners[s].request.value];
      const QuerySpan& rows = f_.batch->sequences[s];
      for (std::int64_t p = rows.first_pos; p < rows.first_pos + rows.q_count; ++p) {
        if (p < r.reached) ++rows_again_;
        if (p >= r.reached && p < r.prompt) ++charge_[r.tenant];
        r.reached = std::max(r.reached, p + 1);
      }
      if (f_.batch->owners[s].cached_tokens > 0) cached_ += f_.batch->owners[s].cached_tokens;
    }
    f_.seal();
    const std::size_t heard = f_.env.events.size();
    f_.commit();
    for (std::size_t i = heard; i < f_.env.events.size(); ++i) {
      const std::uint32_t tenant = requests_[f_.env.events[i].request.value].tenant;
      if (f_.env.events[i].has_token) charge_[tenant] += 2;
      if (f_.env.events[i].last) --open_[tenant];
    }
  }
  std::int64_t charge(std::uint32_t tenant) { return charge_[tenant]; }
  std::int64_t open(std::uint32_t tenant) { return open_[tenant]; }
  std::int64_t cached() const { return cached_; }
  std::int64_t rows_again() const { return rows_again_; }

 private:
  struct Entry {
    std::uint32_t tenant = 0;
    std::int64_t prompt = 0;
    std::int64_t reached = 0;  ///< behind the last row that it ever had
  };
  SchedFixture& f_;
  std::map<std::uint64_t, Entry> requests_;
  std::map<std::uint32_t, std::int64_t> charge_, open_;
  std::int64_t cached_ = 0, rows_again_ = 0;
};

}  // namespace

TEST_CASE("sched.policies.who_goes_first", "[sched]") {
  using Ids = std::vector<std::uint64_t>;
  CHECK(order_of(Fcfs{}, {{.priority = 3}, {.priority = 0}, {.priority = 1}}) == Ids{0, 1, 2});
  CHECK(order_of(PriorityOrder{}, {{.priority = 3}, {.priority = 0}, {.priority = 1}}) == Ids{1, 2, 0});
  CHECK(order_of(Shortest{}, {{.seed = 9}, {.seed = 1}, {.seed = 4}}) == Ids{1, 2, 0});
  CHECK(order_of(DeadlineOrder{}, {{}, {.finish_by_ns = 900'000'000'000}, {.finish_by_ns = 500'000'000'000}}) == Ids{2, 1, 0});
  CHECK(order_of(StaticBatch{}, {{}, {}, {}}) == Ids{0, 1, 2});
  CHECK(order_of(FairShare{}, {{.tenant = 1}, {.tenant = 1}, {.tenant = 2}}) == Ids{0, 2, 1});
  CHECK(order_of(LongestPrefix{}, {{.tenant = 1}, {.tenant = 2}, {.tenant = 1}}) == Ids{0, 2, 1});  // tenant 1's prompt is cached then
}

TEST_CASE("sched.policies.waiting_makes_urgent", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 1}, with_order(PriorityOrder{})};
  REQUIRE(f.submit(0, tokens_from(0, 4), 40, {.priority = 0}));
  f.step();
  REQUIRE(f.submit(1, tokens_from(1, 4), 2, {.priority = 3}));
  f.env.time_ns += 31'000'000'000;
  REQUIRE(f.submit(2, tokens_from(2, 4), 2, {.priority = 0}));  // comes 31 s later: worth three classes
  CHECK(served(f) == std::vector<std::uint64_t>{0, 1, 2});
}

TEST_CASE("sched.policies.static_batch_admits_when_the_last_one_has_ended", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 2}, with_order(StaticBatch{})};
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

TEST_CASE("sched.policies.a_static_batch_is_open_until_nobody_waits", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 14, .max_seqs = 4}, with_order(StaticBatch{})};
  for (std::uint64_t id = 0; id < 3; ++id) REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(10 * id), 7), 9));
  f.step();  // two of them use all of its tokens
  CHECK(f.scheduler.num_running() == 2);
  f.step();
  CHECK(f.scheduler.num_running() == 3);
  REQUIRE(f.submit(3, tokens_from(30, 7), 9));  // there is a row, but the batch has left
  f.step();
  CHECK(f.scheduler.num_running() == 3);
  f.run();
}

TEST_CASE("sched.policies.two_backlogged_tenants_get_equal_work", "[sched]") {
  SchedFixture f{{.num_blocks = 32, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 32, .max_seqs = 3}, with_order(FairShare{})};
  TenantLedger ledger{f};
  std::mt19937_64 rng{7};
  std::uint64_t id = 0;
  const auto feed = [&](std::uint32_t tenant, std::size_t longest) {
    Tokens prompt(1 + rng() % longest);
    for (TokenId& token : prompt) token = static_cast<TokenId>(rng() % 90);
    if (id % 3 == 0) prompt = tokens_from(static_cast<TokenId>(tenant), prompt.size());  // often cached
    ledger.submit(id++, prompt, 1 + static_cast<std::int64_t>(rng() % 40), tenant);
  };
  constexpr std::int64_t kLongest = 60;
  const std::int64_t bound = 2 * std::max<std::int64_t>(kLongest, 2 * 32 * 4);
  for (int i = 0; i < 10; ++i) feed(1, kLongest), feed(2, 4);
  for (int step = 0; step < 3000; ++step) {
    ledger.step();
    while (ledger.open(1) < 8) feed(1, kLongest);
    while (ledger.open(2) < 8) feed(2, 4);
    REQUIRE(f.scheduler.tenant_charge(1) == ledger.charge(1));
    REQUIRE(f.scheduler.tenant_charge(2) == ledger.charge(2));
    REQUIRE(std::abs(ledger.charge(1) - ledger.charge(2)) <= bound);
  }
  CHECK(ledger.charge(1) > 5000);
  CHECK(ledger.cached() > 500);      // hits are free
  CHECK(ledger.rows_again() > 500);  // so is what was computed before
}

TEST_CASE("sched.policies.an_absent_tenant_gets_no_credit", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 32, .max_seqs = 2}, with_order(FairShare{})};
  TenantLedger ledger{f};
  for (std::uint64_t id = 0; id < 20; ++id) ledger.submit(id, tokens_from(static_cast<TokenId>(id), 10), 5, 1);
  for (int i = 0; i < 20; ++i) ledger.step();
  REQUIRE(f.submit(100, tokens_from(50, 4), 2, {.tenant = 2}));
  CHECK(ledger.charge(1) > 100);
  CHECK(f.scheduler.tenant_charge(2) == ledger.charge(1));
  f.run();
}

TEST_CASE("sched.policies.offline_work_yields_to_urgent_work", "[sched]") {
  SchedFixture f{{.num_blocks = 16, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 32, .max_seqs = 4}, with_order(PriorityOrder{})};
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

TEST_CASE("sched.policies.longest_prefix_waits_for_a_prompt_in_the_making", "[sched]") {
  std::int64_t rows_of_fcfs = 0;
  for (const AnyOrder& order : {AnyOrder{Fcfs{}}, AnyOrder{LongestPrefix{}}}) {
    const bool waits = order.look_ahead() > 0;
    SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4, .max_chunk_tokens = 16},
              with_order(order)};
    REQUIRE(f.submit(1, tokens_from(0, 60), 2));
    f.step();
    REQUIRE(f.submit(2, tokens_from(0, 60), 2));   // 16 cached, 60 soon
    REQUIRE(f.submit(3, tokens_from(0, 40), 2));   // 16 cached, 24 more to come: not worth a wait
    f.step();
    CHECK((f.scheduler.find(RequestId{2})->num_computed > 0) == !waits);
    CHECK(f.scheduler.find(RequestId{3})->num_computed > 0);
    f.run();
    if (!waits) rows_of_fcfs = f.scheduler.stats().tokens;
    if (waits) CHECK(f.scheduler.stats().tokens < rows_of_fcfs);
    CHECK(f.text(2) == f.expected(tokens_from(0, 60), 2));
  }
}

TEST_CASE("sched.policies.whoever_lacks_a_row_loses_no_patience", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 1}, {.budget_tokens = 64, .max_seqs = 1, .max_chunk_tokens = 4},
                 with_order(LongestPrefix{})};
  REQUIRE(f.submit(1, tokens_from(0, 100), 1));
  f.step();
  REQUIRE(f.submit(2, tokens_from(0, 100), 1));
  for (int i = 0; i < 3; ++i) f.step();
  CHECK(f.scheduler.find(RequestId{2})->held_steps == 0);
  f.run();
}

TEST_CASE("sched.policies.the_example_overtakes_only_in_proportion", "[sched]") {
  const own::AgedShortest order{};
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 1}, with_order(order)};
  REQUIRE(f.submit(0, tokens_from(0, 4), 10));
  f.step();
  REQUIRE(f.submit(1, tokens_from(0, 40), 40));  // 404 ms of service, ranked 3.2 s later
  REQUIRE(f.submit(2, tokens_from(0, 4), 4));    // 40 ms of service, ranked 0.3 s later: overtakes
  f.env.time_ns += 2'500'000'000;
  REQUIRE(f.submit(3, tokens_from(0, 4), 4));  // still does
  f.env.time_ns += 1'000'000'000;
  REQUIRE(f.submit(4, tokens_from(0, 4), 4));  // 3.5 s later: not any more
  CHECK(served(f) == std::vector<std::uint64_t>{0, 2, 3, 1, 4});
}

TEST_CASE("sched.policies.a_fair_order_of_ones_own_shares_by_weight", "[sched]") {
  const own::WeightedShare order{};
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 32, .max_seqs = 1}, with_order(order)};
  std::int64_t tokens[2] = {0, 0};
  for (std::uint64_t id = 0; id < 260; ++id) {  // more than the steps serve: both tenants always wait
    REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(id % 7), 4), 8, {.tenant = static_cast<std::uint32_t>(id % 2)}));
  }
  for (int step = 0; step < 1000; ++step) {
    REQUIRE(f.plan());
    for (const PlannedSample& sample : f.batch->samples) ++tokens[sample.request.value % 2];
    f.seal();
    f.commit();
    const std::int64_t apart = f.scheduler.tenant_charge(0) - f.scheduler.tenant_charge(1);
    REQUIRE(std::abs(apart) <= 8 * order.decode_us_per_token + 4 * order.prefill_us_per_token);  // a request's
  }
  CHECK(tokens[0] + tokens[1] == 1000);
  CHECK(std::abs(tokens[0] - 3 * tokens[1]) <= 3 * 8);
}

TEST_CASE("sched.policies.a_cache_aware_order_of_ones_own_ranks_by_what_is_left", "[sched]") {
  const auto served_first = [](const AnyOrder& order) {
    SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 1}, with_order(order)};
    REQUIRE(f.submit(0, tokens_from(0, 32), 2));
    f.step();
    REQUIRE(f.submit(1, tokens_from(0, 60), 2));   // 32 cached, 28 to compute
    REQUIRE(f.submit(2, tokens_from(90, 12), 2));  // nothing cached, 12 to compute
    REQUIRE(f.submit(3, tokens_from(0, 40), 2));   // 32 cached, 8 to compute
    return served(f);
  };
  CHECK(served_first(own::LeastToCompute{}) == std::vector<std::uint64_t>{0, 3, 2, 1});
  CHECK(served_first(LongestPrefix{}) == std::vector<std::uint64_t>{0, 1, 3, 2});
}

TEST_CASE("sched.policies.an_account_is_never_charged_less_than_nothing", "[sched]") {
  struct Generous : OrderDefaults {
    std::int64_t charged = -5;
    [[nodiscard]] std::int64_t rank(const RequestView& request) const noexcept { return request.arrival_ns; }
    [[nodiscard]] std::uint64_t account(const RequestView& request) const noexcept { return request.tenant; }
    [[nodiscard]] std::int64_t charge(const RequestView&, const WorkDone&) const noexcept { return charged; }
  };
  const auto charge_after_a_request = [](std::int64_t charged) {
    Generous order;
    order.charged = charged;
    SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 1}, with_order(order)};
    REQUIRE(f.submit(0, tokens_from(0, 8), 4, {.tenant = 1}));
    f.run();
    return f.scheduler.tenant_charge(1);
  };
  CHECK(charge_after_a_request(-5) == 0);
  CHECK(charge_after_a_request(1) > 0);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(charge_after_a_request(kMost) == kMost);  // and there it stays
}
