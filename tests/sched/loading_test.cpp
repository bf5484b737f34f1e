// A host tier behind the pool: what a plan overwrites is saved, what a prompt continues with is loaded, and no text changes.
#include "sched/sched_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

constexpr std::int64_t kSlots = 64;
const SchedulerConfig kLimits{.budget_tokens = 32, .max_seqs = 4};

/// A pool of 12 blocks of 4 tokens; full attention, or a second group with a window.
BlockAllocatorConfig pool_with(std::int64_t window) {
  BlockAllocatorConfig pool{.num_blocks = window == 0 ? 12 : 20, .block_size = 4, .max_seqs = 8, .num_groups = window == 0 ? 1 : 2};
  pool.window_tokens[1] = window;
  return pool;
}

/// A scheduler whose tier has the first 32 tokens of `kPrompt`, and whose pool has nothing of them any more.
struct Loaded : SchedFixture {
  explicit Loaded(std::int64_t window = 0, const SchedulerConfig& limits = kLimits, const TestEnv& environment = {})
      : SchedFixture(pool_with(window), limits, {}, environment, kSlots) {
    REQUIRE(submit(100, tokens_from(0, 33), 1));
    run();
    REQUIRE(submit(101, tokens_from(200, window == 0 ? 46 : 40), 1));
    run();
    // A window kept its last blocks alone: what is behind it in the pool does not matter.
    REQUIRE(cache.match({.tokens = prompt}).num_tokens == 0);
    REQUIRE(tier->tier.capacity().stored >= 8);
    env.events.clear();
  }

  [[nodiscard]] const Request* request(std::uint64_t id) const { return scheduler.find(RequestId{id}); }

  const Tokens prompt = tokens_from(0, 36);
};

void check_text(const Loaded& f, std::uint64_t id, std::int64_t max_new) { CHECK(f.text(id) == f.expected(f.prompt, max_new)); }

}  // namespace

TEST_CASE("sched.loading.a_prompt_goes_on_behind_the_pages_of_the_tier", "[sched]") {
  for (const std::int64_t window : {0, 6}) {
    INFO("window " << window);
    Loaded f{window};
    REQUIRE(f.submit(1, f.prompt, 5));
    REQUIRE(f.plan());
    CHECK(f.batch->num_tokens() == 0);  // it takes no rows in this step
    REQUIRE(f.batch->loading.size() == 1);
    CHECK(f.batch->loading[0].request == RequestId{1});
    CHECK(f.batch->promotions.size() == (window == 0 ? 8u : 8u + 2u));  // of the window group, what token 32 looks back at
    CHECK(f.batch->demotions.empty());
    CHECK(f.scheduler.leader_advanced());
    f.seal();
    CHECK_FALSE(f.batch->demotions.empty());
    CHECK(validate(*f.batch, 4));
    CHECK(f.request(1)->state == RequestState::kLoading);
    f.commit();
    CHECK(f.request(1)->state == RequestState::kRunning);
    CHECK(f.request(1)->num_computed == 32);
    REQUIRE(f.plan());
    CHECK(f.rows_of(1) == 4);
    f.scheduler.drop();
    f.run();
    check_text(f, 1, 5);
    CHECK(f.env.events.back().cached_tokens == 32);
    CHECK(f.scheduler.stats().promoted == (window == 0 ? 8 : 10));
    CHECK(f.scheduler.stats().failed_loads == 0);
    CHECK(f.tier->tier.clear());
  }
}

TEST_CASE("sched.loading.others_compute_while_one_loads", "[sched]") {
  Loaded f;
  REQUIRE(f.submit(2, tokens_from(400, 7), 6));
  f.step();
  REQUIRE(f.submit(1, f.prompt, 5));
  REQUIRE(f.plan());
  CHECK(f.rows_of(2) == 1);
  CHECK(f.rows_of(1) == 0);
  CHECK(f.batch->promotions.size() > 0);
  f.seal();
  f.commit();
  f.run();
  check_text(f, 1, 5);
  CHECK(f.text(2) == f.expected(tokens_from(400, 7), 6));
}

TEST_CASE("sched.loading.a_lost_page_is_a_shorter_hit", "[sched]") {
  for (const std::int64_t window : {0, 6}) {
    for (std::int64_t lost = 0; lost < 8; ++lost) {
      INFO("window " << window << ", page " << lost);
      Loaded f{window};
      REQUIRE(f.submit(1, f.prompt, 5));
      f.lost_page = lost;
      REQUIRE(f.plan());
      f.seal();
      f.commit();
      if (window == 0) {
        CHECK(f.request(1)->state == RequestState::kRunning);
        CHECK(f.request(1)->num_computed == 4 * lost);
      }
      while (f.request(1) != nullptr && f.plan()) {  // it loads no more
        CHECK(f.batch->promotions.empty());
        f.seal();
        f.commit();
      }
      f.run();
      check_text(f, 1, 5);
      CHECK(f.scheduler.stats().failed_loads == 1);
      CHECK(f.tier->tier.clear());
    }
  }
}

TEST_CASE("sched.loading.pages_that_were_given_up_are_not_tried_again", "[sched]") {
  for (const std::int64_t window : {0, 6}) {
    INFO("window " << window);
    Loaded f{window};
    REQUIRE(f.submit(1, f.prompt, 5));
    REQUIRE(f.plan());
    f.seal();
    for (const auto& [block, slot] : f.batch->demotions) f.tier->tier.demote(slot, f.toy.page(block)).value();
    f.overwrite();
    for (const auto& [block, slot] : f.batch->promotions) f.tier->tier.release(slot).value();
    f.outcomes.assign(f.batch->promotions.size(), PromotionOutcome::kFailed);
    f.scheduler.commit({}, f.outcomes);
    CHECK(f.request(1)->num_computed == 0);
    CHECK(f.scheduler.preempt(RequestId{1}) == 1);
    REQUIRE(f.plan());
    CHECK(f.batch->promotions.empty());
    CHECK(f.rows_of(1) > 0);
    f.scheduler.drop();
    REQUIRE(f.submit(2, f.prompt, 5));  // others may have them
    f.run();
    check_text(f, 1, 5);
    check_text(f, 2, 5);
  }
}

TEST_CASE("sched.loading.a_small_pool_with_a_window_loads_a_long_prompt_in_one_step", "[sched]") {
  Loaded f{6};  // 20 pages: 8 of the full group, and never more than 4 of the other one
  REQUIRE(f.submit(1, f.prompt, 5));
  REQUIRE(f.plan());
  f.seal();
  const BlockTable window = f.cache.table(f.batch->loading[0].seq, 1);
  CHECK(window.first_live == 6);  // pages that no later token sees are not kept
  f.commit();
  f.run();
  check_text(f, 1, 5);
}

TEST_CASE("sched.loading.recomputing_is_preferred_when_copies_are_dear", "[sched]") {
  for (const std::int64_t copy_ns : {1'000, 399'999, 400'000, 5'000'000}) {
    TestEnv env;
    env.step_costs = {.prefill_ns_per_token = 100'000, .copy_ns_per_block = copy_ns};
    Loaded f{0, kLimits, env};
    REQUIRE(f.submit(1, f.prompt, 5));
    REQUIRE(f.plan());
    CHECK(f.batch->promotions.empty() == (copy_ns >= 400'000));
    f.scheduler.drop();
    f.run();
    check_text(f, 1, 5);
  }
}

TEST_CASE("sched.loading.cancel_deadline_abort_and_drop_let_go_of_pages_and_blocks", "[sched]") {
  for (const std::string what : {"dropped", "aborted before its transfers", "aborted after some transfers", "cancelled",
                                 "cancelled and aborted", "cancelled while planned", "expired"}) {
    INFO(what);
    Loaded f;
    REQUIRE(f.submit(1, f.prompt, 5, {.finish_by_ns = 1'000}));
    REQUIRE(f.plan());
    const bool cancelled = what.rfind("cancelled", 0) == 0;
    if (what == "cancelled while planned") CHECK(f.scheduler.cancel(RequestId{1}));
    if (what == "dropped") {
      CHECK_FALSE(f.tier->tier.clear());  // its pages are held
      f.scheduler.drop();
    } else {
      f.seal();
      if (cancelled && what != "cancelled while planned") CHECK(f.scheduler.cancel(RequestId{1}));
      if (what == "aborted before its transfers" || what == "cancelled and aborted") {
        CHECK(f.scheduler.abort().ok());
      } else if (what == "aborted after some transfers") {
        const auto [block, slot] = f.batch->promotions[0];
        CHECK(f.tier->tier.promote(slot, f.toy.page(block)));
        CHECK(f.scheduler.abort(1).ok());
      } else {
        f.commit();
      }
    }
    CHECK(f.cache.capacity().used == (what == "expired" ? 8 : 0));
    if (what == "expired") f.env.time_ns = 1'000;
    if (what != "expired" && !cancelled) CHECK(f.request(1)->state == RequestState::kWaiting);
    CHECK(f.tier->tier.clear());  // nothing of it is held any more
    f.run();
    if (cancelled || what == "expired") {
      CHECK(f.reason(1) == (cancelled ? FinishReason::kCancelled : FinishReason::kDeadline));
      CHECK(f.text(1).empty());
    } else {
      check_text(f, 1, 5);
    }
  }
}

TEST_CASE("sched.loading.a_refused_seal_reserves_no_slots", "[sched]") {
  Loaded f;
  std::vector<StepId> others;
  for (int i = 0; i < 2; ++i) {
    auto txn = f.cache.begin();
    others.push_back(txn->seal().value());
  }
  REQUIRE(f.submit(1, tokens_from(300, 30), 3));
  REQUIRE(f.plan());
  const TierCapacity before = f.tier->tier.capacity();
  CHECK(f.scheduler.seal().error().kind == CacheRefusalKind::kBusy);
  CHECK(f.tier->tier.capacity() == before);
  CHECK(f.batch->demotions.empty());
  f.scheduler.drop();
  for (const StepId id : others) f.cache.commit(id).value();
  REQUIRE(f.plan());
  f.seal();
  CHECK_FALSE(f.batch->demotions.empty());
  f.commit();
  f.run();
  CHECK(f.text(1) == f.expected(tokens_from(300, 30), 3));
}

TEST_CASE("sched.loading.demotions_that_nobody_carried_out_are_cancelled", "[sched]") {
  Loaded f;
  REQUIRE(f.submit(1, tokens_from(300, 30), 1));
  REQUIRE(f.plan());
  f.seal();
  REQUIRE_FALSE(f.batch->demotions.empty());
  const std::int64_t demoted = f.scheduler.stats().demoted;
  f.overwrite();
  const auto logits = f.toy.run(*f.batch);
  f.results.assign(1, {.token = toy::draw(logits[0], f.batch->samples[0], f.kVocab)});
  f.scheduler.commit(f.results);
  CHECK(f.tier->tier.capacity().in_flight == 0);
  CHECK(f.scheduler.stats().demoted == demoted);
  CHECK(f.text(1) == f.expected(tokens_from(300, 30), 1));
}

TEST_CASE("sched.loading.two_requests_load_the_same_pages", "[sched]") {
  SchedFixture f{{.num_blocks = 20, .block_size = 4, .max_seqs = 8}, kLimits, {}, {}, kSlots};
  const Tokens prompt = tokens_from(0, 33);
  for (const TokenId first : {0u, 200u, 300u}) {
    REQUIRE(f.submit(first, tokens_from(first, first == 0 ? 33 : 40), 1));
    f.run();
  }
  REQUIRE(f.submit(1, prompt, 4));
  REQUIRE(f.submit(2, prompt, 4));
  REQUIRE(f.plan());
  CHECK(f.batch->loading.size() == 2);
  CHECK(f.batch->promotions.size() == 16);
  f.seal();
  f.commit();
  CHECK(f.cache.capacity().used == 8);  // the second one adopts what the first one published
  f.run();
  for (const std::uint64_t id : {1u, 2u}) CHECK(f.text(id) == f.expected(prompt, 4));
}

TEST_CASE("sched.loading.a_victim_is_demoted_where_that_is_cheaper", "[sched]") {
  for (const std::int64_t copy_ns : {1'000, 5'000'000}) {
    for (const std::int64_t slots : {std::int64_t{0}, kSlots}) {
      TestEnv env;
      env.step_costs.copy_ns_per_block = copy_ns;
      const bool demotes = copy_ns == 1'000 && slots > 0;
      SchedFixture f{{.num_blocks = 12, .block_size = 4, .max_seqs = 8}, kLimits, {{}, AnyAdmission{ReserveChunk{}}, {}}, env, slots};
      REQUIRE(f.submit(1, tokens_from(0, 17), 20));
      REQUIRE(f.submit(2, tokens_from(50, 17), 20));
      f.run();
      CHECK(f.text(1) == f.expected(tokens_from(0, 17), 20));
      CHECK(f.text(2) == f.expected(tokens_from(50, 17), 20));
      const SchedulerStats& stats = f.scheduler.stats();
      CHECK((stats.preempted_demote > 0) == demotes);
      CHECK((stats.preempted_recompute > 0) == !demotes);
      CHECK((stats.promoted > 0) == demotes);
      const RequestEvent& last = f.env.events.back();
      CHECK(last.num_preemptions == stats.preempted_demote + stats.preempted_recompute);
      CHECK(last.preempted_demote == stats.preempted_demote);
      CHECK(last.preempted_recompute == stats.preempted_recompute);
      if (demotes) CHECK(last.recomputed_tokens < 4 * last.num_preemptions);
    }
  }
}
