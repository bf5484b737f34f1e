// One suite for every admission: how much it wants, whom it lets in, and what it promises to those that run.
#include "sched/policies_fixture.hpp"

using namespace kvpage;
using namespace kvpage_test;

#define KVPAGE_ALL_ADMISSIONS ReserveChunk, ReservePrompt, ReserveFull, LearnedGrowth

namespace {

/// A view that can occur: chunk <= prompt <= full, and growth is what lies between.
AdmissionView draw_view(std::mt19937_64& rng) {
  const auto draw = [&](std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n)); };
  AdmissionView view{.block_size = std::int64_t{1} << draw(6), .num_groups = 1 + draw(2)};
  view.chunk_blocks = draw(10) * view.num_groups;
  view.prompt_blocks = view.chunk_blocks + draw(50) * view.num_groups;
  view.growth_tokens = draw(5000);
  view.full_blocks = view.prompt_blocks + ceil_div(view.growth_tokens, view.block_size) * view.num_groups;
  view.num_running = draw(20);
  if (view.num_running == 0) return view;
  view.running_prompt_blocks = draw(100) * view.num_groups;
  view.running_growth_tokens = draw(20'000);
  view.running_full_blocks = view.running_prompt_blocks + ceil_div(view.running_growth_tokens, view.block_size) * view.num_groups;
  return view;
}

/// Sum over those that run, and the sequences that the sealed step has just let in.
template <class TokensAtTheEnd>
std::int64_t missing_of_all(const SchedFixture& f, std::uint64_t num_ids, TokensAtTheEnd&& tokens) {
  std::int64_t blocks = 0;
  for (std::uint64_t id = 0; id < num_ids; ++id) {
    const Request* r = f.scheduler.find(RequestId{id});
    if (r != nullptr && r->state == RequestState::kRunning) blocks += missing_blocks(f, id, tokens(*r));
  }
  return blocks;
}

constexpr BlockAllocatorConfig kTightPool{.num_blocks = 16, .block_size = 4, .max_seqs = 8};
constexpr SchedulerConfig kFewRows{.budget_tokens = 20, .max_seqs = 5, .max_chunk_tokens = 9};

}  // namespace

TEMPLATE_TEST_CASE("sched.policies.admission.wants_between_the_chunk_and_everything", "[sched]", KVPAGE_ALL_ADMISSIONS) {
  std::mt19937_64 rng{5};
  TestType admission{};
  for (int i = 0; i < 2000; ++i) {
    const AdmissionView view = draw_view(rng);
    const std::int64_t needed = admission.needed_blocks(view);
    CHECK(needed >= view.chunk_blocks);
    CHECK(needed <= view.full_blocks + view.running_full_blocks);
    CHECK(admission.needed_blocks(view) == needed);  // asking changes nothing
    AdmissionView more = view;
    ++more.chunk_blocks, ++more.prompt_blocks, ++more.full_blocks, ++more.growth_tokens;
    CHECK(admission.needed_blocks(more) >= needed);
    ++more.running_prompt_blocks, ++more.running_full_blocks, ++more.running_growth_tokens, ++more.num_running;
    CHECK(admission.needed_blocks(more) >= needed);
    admission.on_step();
    if (i % 100 == 99) admission.on_preemption(view.growth_tokens / 2, view.growth_tokens, view.num_running);
  }
}

TEMPLATE_TEST_CASE("sched.policies.admission.alone_gets_the_whole_pool", "[sched]", KVPAGE_ALL_ADMISSIONS) {
  SchedFixture f{kTightPool, kFewRows, with_admission(TestType{})};
  REQUIRE(f.submit(1, tokens_from(0, 40), 25));  // 64 tokens in the end: all of it
  run_looking(f, [] {});
  CHECK(f.text(1) == f.expected(tokens_from(0, 40), 25));
  CHECK(f.scheduler.stats().preempted_recompute == 0);
}

TEMPLATE_TEST_CASE("sched.policies.admission.keeps_what_it_promises_to_those_that_run", "[sched]", KVPAGE_ALL_ADMISSIONS) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SchedFixture f{kTightPool, kFewRows, with_admission(TestType{})};
    const auto requests = mixed_requests(seed, 40);
    std::int64_t admissions = 0;
    std::size_t next = 0;
    while (next < requests.size() || f.scheduler.num_requests() > 0) {
      for (int i = 0; i < 3 && next < requests.size(); ++i, ++next) REQUIRE(f.submit(next, requests[next].prompt, requests[next].max_new));
      if (!f.plan()) continue;
      f.seal();
      const auto& owners = f.batch->owners;
      const auto admitted = std::count_if(owners.begin(), owners.end(), [](const auto& owner) { return owner.cached_tokens >= 0; });
      if (admitted > 0) {
        admissions += admitted;
        const std::int64_t left = f.cache.capacity().available();
        const std::int64_t prompts = missing_of_all(f, next, [](const Request& r) { return r.num_tokens(); });
        const std::int64_t ends = missing_of_all(f, next, [](const Request& r) { return r.final_tokens(); });
        if (f.scheduler.num_running() > 1 && !std::is_same_v<TestType, ReserveChunk>) CHECK(prompts <= left);
        if (f.scheduler.num_running() > 1 && std::is_same_v<TestType, ReserveFull>) CHECK(ends <= left);
      }
      f.commit();
    }
    if (std::is_same_v<TestType, ReserveFull>) CHECK(f.scheduler.stats().preempted_recompute == 0);
    CHECK(admissions >= 40);
    for (std::uint64_t id = 0; id < requests.size(); ++id) CHECK(f.text(id) == f.expected(requests[id].prompt, requests[id].max_new));
  }
}

TEST_CASE("sched.policies.admission.a_preemption_never_lowers_the_learned_ratio", "[sched]") {
  for (const double first : {0.1, 0.7, 1.0, 1.5}) {
    LearnedGrowth growth{.first_ratio = first};
    growth.on_preemption(30, 100, 0);
    CHECK(growth.ratio == std::max(first, 0.3));
    growth.on_preemption(0, 1, 1000);
    CHECK(growth.ratio == std::max(first, 1.0));
  }
}

TEST_CASE("sched.policies.admission.lets_in_as_many_as_its_rule_says", "[sched]") {
  const auto running = [](const AnyAdmission::Kinds& admission) {
    SchedFixture f{{.num_blocks = 24, .block_size = 4, .max_seqs = 8}, {.budget_tokens = 64, .max_seqs = 8, .max_chunk_tokens = 4},
                   with_admission(admission)};
    for (std::uint64_t id = 0; id < 8; ++id) REQUIRE(f.submit(id, tokens_from(static_cast<TokenId>(11 * id), 16), 17));
    f.step();
    return f.scheduler.num_running();
  };
  CHECK(running(ReserveChunk{}) == 8);   // 1 block each of 24
  CHECK(running(ReservePrompt{}) == 6);  // 4 each
  CHECK(running(ReserveFull{}) == 3);    // 8 each
  CHECK(running(LearnedGrowth{}) == 3);  // 4 prompts and 4 * 17 * 0.7 tokens would be 16 + 12
  CHECK(running(LearnedGrowth{.first_ratio = 0.25}) == 4);  // 5 prompts and 5 * 17 / 4 tokens would be 20 + 6
}

TEST_CASE("sched.policies.admission.learned_growth_falls_and_comes_back", "[sched]") {
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
