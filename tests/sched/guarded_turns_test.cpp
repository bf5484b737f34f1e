// Whoever is guarded, because it has waited or given way too often, keeps its turn until it has gained something: under every order that
// takes rows or blocks from others, whatever comes meanwhile. So all ends, and what is computed again stays in proportion.
#include "sched/policies_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

/// As hostile as an order can be: whoever comes is more urgent than everybody before.
struct NewestFirst : OrderDefaults {
  std::int64_t rank(const RequestView& request) const noexcept { return -request.arrival_ns; }
  std::int64_t priority(const RequestView& request) const noexcept { return -request.arrival_ns; }
};
PriorityOrder strict_priorities() {
  PriorityOrder order;
  order.age_ns = PriorityOrder::kNeverAges;
  return order;
}

constexpr std::int64_t kStep = 1'000'000;  // ns between two steps

/// Judges every plan by what it says, and by what was waited and given way before it.
class TurnJudge {
 public:
  explicit TurnJudge(SchedFixture& f) : f_(f) {}

  bool step() {
    if (!f_.plan()) return false;
    CHECK(f_.scheduler.leader_advanced());
    std::map<std::uint64_t, std::int64_t> given_way;
    for (const PlannedPreemption& victim : f_.batch->preemptions) {
      ++given_way[victim.request.value];
      if (f_.scheduler.find(victim.request)->state == RequestState::kRunning) end_turn(victim.request);
    }
    for (const PlannedOwner& owner : f_.batch->owners) {
      if (owner.cached_tokens >= 0) admitted(owner.request, given_way[owner.request.value]);
    }
    for (const PlannedOwner& owner : f_.batch->loading) admitted(owner.request, given_way[owner.request.value]);
    f_.seal();
    f_.commit();
    f_.env.time_ns += kStep;
    return true;
  }

  std::int64_t num_turns = 0;
  std::vector<std::int64_t> gained;  ///< tokens of each turn that others ended
  std::vector<std::int64_t> new_rows, rows_again;  ///< of the same turns

 private:
  struct Turn {
    std::int64_t num_new = 0, max_computed = 0, recomputed = 0;
  };

  void admitted(RequestId id, std::int64_t given_way) {
    const Request* r = f_.scheduler.find(id);
    const bool overdue = f_.env.time_ns - r->waiting_since_ns > f_.scheduler.config().starve_after_ns;
    const bool shielded = r->num_preemptions() + given_way >= f_.scheduler.config().shield_after;
    turns_.erase(id.value);
    if (!overdue && !shielded) return;
    turns_[id.value] = {r->num_new_tokens(), r->max_computed, r->recomputed_tokens};
    ++num_turns;
  }
  void end_turn(RequestId id) {
    const auto turn = turns_.find(id.value);
    if (turn == turns_.end()) return;
    INFO("request " << id.value);
    const Request* r = f_.scheduler.find(id);
    gained.push_back(r->num_new_tokens() - turn->second.num_new);
    new_rows.push_back(r->max_computed - turn->second.max_computed);
    rows_again.push_back(r->recomputed_tokens - turn->second.recomputed);
    CHECK(gained.back() > 0);
    turns_.erase(turn);
  }

  SchedFixture& f_;
  std::map<std::uint64_t, Turn> turns_;
};

struct StreamCase {
  std::int64_t max_seqs, num_blocks, spare_ids, tier_slots;
  bool share;
};

/// Two requests of which everybody who comes is the better one, by every order. More come in each step than can be served. Returns the
/// guarded turns.
std::int64_t ends_under_a_stream(const AnyOrder& order, const StreamCase& c) {
  INFO(c.max_seqs << " rows, " << c.num_blocks << " blocks, " << c.spare_ids << " spare ids, " << c.tier_slots << " pages");
  INFO("share " << c.share);
  SchedFixture f{{.num_blocks = c.num_blocks, .block_size = 4, .max_seqs = c.max_seqs + c.spare_ids},
                 {.budget_tokens = 24, .max_seqs = c.max_seqs, .max_waiting = 1 << 16, .starve_after_ns = 20 * kStep, .max_bypasses = 1,
                  .share_prefixes = c.share},
                 with_order(order), {}, c.tier_slots};
  TurnJudge judge{f};
  const auto in_flight = [&](std::uint64_t id) { return f.scheduler.find(RequestId{id}) != nullptr; };
  std::uint64_t next = 2;
  for (std::int64_t steps = 0; steps <= 3 || in_flight(0) || in_flight(1); ++steps) {
    REQUIRE(steps < 20'000);
    if (steps == 3) REQUIRE(f.submit(0, tokens_from(0, 30), 24, {.priority = 50}));
    if (steps == 3) REQUIRE(f.submit(1, tokens_from(40, 9), 20, {.priority = 50}));
    do {
      const std::int64_t before_all = 1'000'000'000'000 - static_cast<std::int64_t>(next);
      REQUIRE(f.submit(next, tokens_from(60, 4 + next % 5), 3, {.priority = steps % 2, .finish_by_ns = before_all}));
      ++next;
    } while (f.scheduler.num_waiting() < c.max_seqs + 2);
    judge.step();
    std::erase_if(f.env.events, [](const RequestEvent& e) { return e.request.value > 1; });
  }
  CHECK(f.text(0) == f.expected(tokens_from(0, 30), 24));
  CHECK(f.text(1) == f.expected(tokens_from(40, 9), 20));
  return judge.num_turns;
}

}  // namespace

TEST_CASE("sched.turns.offline_work_ends_whatever_comes", "[sched]") {
  const std::pair<const char*, AnyOrder> orders[] = {{"strict priorities", strict_priorities()}, {"ageing priorities", PriorityOrder{}},
                                                     {"deadlines", DeadlineOrder{}}, {"aged shortest", own::AgedShortest{}},
                                                     {"newest first", NewestFirst{}}};
  for (const auto& [name, order] : orders) {
    INFO(name);
    std::int64_t turns = 0;
    for (const std::int64_t rows : {1, 2, 8}) {
      for (const bool share : {false, true}) {
        turns += ends_under_a_stream(order, {rows, 14, 0, 0, share});
        turns += ends_under_a_stream(order, {rows, 14, 4, share ? 40 : 0, share});
        turns += ends_under_a_stream(order, {rows, 200, rows, 0, share});
      }
    }
    CHECK(turns >= 18);
  }
}

TEST_CASE("sched.turns.an_overdue_request_gains_sixteen_tokens", "[sched]") {
  SchedFixture f{{.num_blocks = 200, .block_size = 4, .max_seqs = 8},
                 {.budget_tokens = 24, .max_seqs = 1, .starve_after_ns = 20 * kStep, .shield_after = 100}, with_order(strict_priorities())};
  TurnJudge judge{f};
  REQUIRE(f.submit(0, tokens_from(0, 30), 60, {.priority = 50}));
  for (std::uint64_t next = 1; f.scheduler.find(RequestId{0}) != nullptr; ++next) {
    if (f.scheduler.num_waiting() < 3) REQUIRE(f.submit(next, tokens_from(60, 4), 3));
    judge.step();
  }
  CHECK(judge.gained == std::vector<std::int64_t>{16, 16, 16});  // the prompt and 16 tokens; then the last 12
  CHECK(f.text(0) == f.expected(tokens_from(0, 30), 60));
}

TEST_CASE("sched.turns.a_shielded_request_pays_for_what_it_computes_again", "[sched]") {
  for (const std::int64_t shield_after : {1, 2, 3}) {
    INFO("shield after " << shield_after);
    SchedFixture f{{.num_blocks = 200, .block_size = 4, .max_seqs = 1},
                   {.budget_tokens = 24, .max_seqs = 1, .shield_after = shield_after, .share_prefixes = false},
                   with_order(strict_priorities())};
    TurnJudge judge{f};
    REQUIRE(f.submit(0, tokens_from(0, 30), 120, {.priority = 50}));
    for (std::uint64_t next = 1; f.scheduler.find(RequestId{0}) != nullptr; ++next) {
      judge.step();  // it waits for nothing: no second passes for the guard
      const Request* r = f.scheduler.find(RequestId{0});
      const bool runs = r != nullptr && r->state == RequestState::kRunning;
      if (runs && r->num_new_tokens() > 0) REQUIRE(f.submit(next, tokens_from(60, 4), 2));
    }
    REQUIRE(judge.new_rows.size() >= 2);
    for (std::size_t i = 0; i < judge.new_rows.size(); ++i) {
      CHECK(judge.rows_again[i] >= 30);
      CHECK(judge.new_rows[i] == judge.rows_again[i]);
    }
    CHECK(f.text(0) == f.expected(tokens_from(0, 30), 120));
  }
}

TEST_CASE("sched.turns.rows_computed_again_are_bounded_under_every_load", "[sched]") {
  std::int64_t preemptions = 0;
  double most = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 rng{seed};
    const AnyOrder orders[] = {strict_priorities(), PriorityOrder{}, DeadlineOrder{}, own::AgedShortest{}, NewestFirst{}, Fcfs{}};
    const auto shield_after = static_cast<std::int64_t>(1 + rng() % 3);
    const auto rows = static_cast<std::int64_t>(1 + rng() % 6);
    const std::int64_t starve_after_ns = rng() % 2 == 0 ? 60'000'000'000 : 30 * kStep;
    SchedFixture f{{.num_blocks = 12 + static_cast<std::int64_t>(rng() % 12), .block_size = 4, .max_seqs = rows},
                   {.budget_tokens = 20, .max_seqs = rows, .starve_after_ns = starve_after_ns, .shield_after = shield_after,
                    .share_prefixes = rng() % 4 == 0},
                   {orders[rng() % std::size(orders)], AnyAdmission::of(seed), {}}};
    TurnJudge judge{f};
    std::map<std::uint64_t, std::size_t> lengths;
    for (std::uint64_t id = 0; id < 60; ++id) {
      const std::size_t length = 1 + rng() % 24;
      const std::int64_t before_all = 1'000'000'000'000 - static_cast<std::int64_t>(id);
      const RequestSpec spec{.priority = static_cast<std::int64_t>(rng() % 4), .finish_by_ns = before_all};
      REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(rng() % 90), length), 1 + static_cast<std::int64_t>(rng() % 20), spec));
      lengths[id] = length;
      for (std::uint64_t steps = rng() % 6; steps > 0; --steps) judge.step();
    }
    while (judge.step()) {
    }
    for (const RequestEvent& e : f.env.events) {
      if (!e.last) continue;
      const std::int64_t tokens = static_cast<std::int64_t>(lengths[e.request.value]) + e.num_new_tokens;
      INFO("request " << e.request.value << " of " << tokens << " tokens, " << e.num_preemptions << " preemptions");
      CHECK(e.recomputed_tokens <= (shield_after + 1) * tokens);
      preemptions += e.num_preemptions;
      most = std::max(most, static_cast<double>(e.recomputed_tokens) / static_cast<double>(tokens));
    }
    CHECK(f.scheduler.num_requests() == 0);
  }
  CHECK(preemptions > 1000);
  CHECK(most > 1);  // a load that comes near
}

TEST_CASE("sched.turns.newcomers_that_take_rows_overtake_an_overdue_request_sixteen_times", "[sched]") {
  SchedFixture f{{.num_blocks = 400, .block_size = 4, .max_seqs = 64}, {.budget_tokens = 24, .max_seqs = 1, .starve_after_ns = 20 * kStep},
                 with_order(NewestFirst{})};
  REQUIRE(f.submit(0, tokens_from(0, 30), 4));
  f.env.time_ns = 5 * kStep;
  REQUIRE(f.submit(1, tokens_from(60, 4), 400));
  f.step();
  std::int64_t overtaken = 0;
  std::uint64_t last = 1;
  for (f.env.time_ns = 21 * kStep; f.text(0).empty(); f.env.time_ns += kStep) {
    REQUIRE(++last < 40);
    REQUIRE(f.submit(last, tokens_from(60, 4), last == 17 ? 3 : 400));  // the 16th newcomer is the last one that gets in, and it ends
    REQUIRE(f.plan());
    overtaken += f.rows_of(last) > 0 ? 1 : 0;
    f.seal();
    f.commit();
  }
  CHECK(overtaken == 16);
  CHECK(f.scheduler.find(RequestId{0})->bypassed == 16);
  for (std::uint64_t id = 0; id <= last; ++id) f.scheduler.cancel(RequestId{id});
}

TEST_CASE("sched.turns.one_turn_is_not_in_the_way_of_another", "[sched]") {
  for (std::int64_t pool = 12; pool <= 30; ++pool) {
    INFO(pool << " blocks");
    SchedFixture f{{.num_blocks = pool, .block_size = 4, .max_seqs = 4},
                   {.budget_tokens = 24, .max_seqs = 4, .max_chunk_tokens = 5, .starve_after_ns = 10 * kStep, .share_prefixes = false},
                   with_order(strict_priorities())};
    TurnJudge judge{f};
    for (std::uint64_t id = 0; id < 4; ++id) REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(20 * id), 36), 10, {.priority = 50}));
    REQUIRE(f.submit(4, tokens_from(60, 4), 20));
    for (std::uint64_t next = 5; next < 200; ++next) {
      if (f.scheduler.num_waiting() < 6) REQUIRE(f.submit(next, tokens_from(60, 4), 9));
      judge.step();
    }
    while (judge.step()) {
    }
    for (std::uint64_t id = 0; id < 4; ++id) CHECK(f.text(id) == f.expected(tokens_from(static_cast<TokenId>(20 * id), 36), 10));
    CHECK(judge.num_turns >= 4);
  }
}
