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

std::array<std::int64_t, 10> numbers_of(const AdmissionView& v) {
  return {v.chunk_blocks,        v.prompt_blocks,         v.full_blocks, v.growth_tokens, v.running_prompt_blocks,
          v.running_full_blocks, v.running_growth_tokens, v.num_running, v.block_size,    v.num_groups};
}

/// What admissions are asked in a plan in which everybody gets in, from the plan and what the requests wanted. Nothing is shared: a
/// candidate has no block yet.
class NaiveViews {
 public:
  NaiveViews(const SchedFixture& f, const std::vector<MixedRequest>& requests)
      : f_(f), plan_(*f.batch), pool_(f.cache.config()), requests_(requests) {}

  std::vector<AdmissionView> all() {
    std::vector<std::size_t> order(plan_.owners.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto position = [&](std::size_t s) {
      return std::make_tuple(plan_.owners[s].cached_tokens >= 0, plan_.owners[s].request.value, plan_.owners[s].child);
    };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return position(a) < position(b); });
    std::vector<AdmissionView> views;
    AdmissionView now{.block_size = pool_.block_size, .num_groups = pool_.num_groups};
    for (const std::size_t s : order) {
      const Wanted wanted = wanted_by(s);
      if (plan_.owners[s].cached_tokens >= 0 && now.num_running > 0) {
        AdmissionView view = now;
        view.chunk_blocks = blocks(plan_.kv_lens[s]) * pool_.num_groups;
        view.prompt_blocks = missing(wanted.tokens, {});
        view.full_blocks = missing(wanted.final_tokens, {}) + wanted.further_blocks;
        view.growth_tokens = wanted.growth;
        views.push_back(view);
      }
      ++now.num_running;
      now.running_prompt_blocks += missing(wanted.tokens, s);
      now.running_full_blocks += missing(wanted.final_tokens, s) + wanted.further_blocks;
      now.running_growth_tokens += wanted.growth;
    }
    return views;
  }

 private:
  struct Wanted {
    std::int64_t tokens, final_tokens, growth, further_blocks;
  };
  Wanted wanted_by(std::size_t s) const {
    const PlannedOwner& owner = plan_.owners[s];
    const MixedRequest& r = requests_[owner.request.value];
    const auto prompt = std::ssize(r.prompt);
    const auto said = std::ssize(f_.text(owner.request.value, owner.child));
    const std::int64_t answers = said == 0 ? r.spec.num_samples : 1;  // until then one stands for all
    const std::int64_t end = prompt + r.max_new - 1;
    return {.tokens = prompt + said, .final_tokens = end, .growth = answers * std::min<std::int64_t>(4096, r.max_new - said),
            .further_blocks = (answers - 1) * (blocks(end) - prompt / pool_.block_size) * pool_.num_groups};
  }
  std::int64_t blocks(std::int64_t tokens) const { return ceil_div(tokens, pool_.block_size); }
  /// Beyond those that sequence s of the plan holds. Behind a window a sequence holds what the window touches, and a block to grow into.
  std::int64_t missing(std::int64_t tokens, std::optional<std::size_t> s) const {
    std::int64_t sum = 0;
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      const std::int64_t window = pool_.window(static_cast<std::int64_t>(g));
      const std::int64_t most = window == 0 ? blocks(tokens) : std::min(blocks(tokens), blocks(window + 1) + 1);
      sum += std::max<std::int64_t>(0, most - (s ? held(plan_.groups[g], *s) : 0));
    }
    return sum;
  }
  static std::int64_t held(const PlannedGroup& group, std::size_t s) {
    return std::count_if(group.block_ids.begin() + group.indptr[s], group.block_ids.begin() + group.indptr[s + 1],
                         [](BlockId block) { return block != kNoBlock; });
  }

  const SchedFixture& f_;
  const BatchPlan& plan_;
  const BlockAllocatorConfig& pool_;
  const std::vector<MixedRequest>& requests_;
};

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

TEST_CASE("sched.policies.admission.is_asked_with_what_all_miss", "[sched]") {
  const std::vector<MixedRequest> requests{{tokens_from(0, 30), 12, {}},
                                           {tokens_from(40, 9), 8, {.num_samples = 3}},
                                           {tokens_from(50, 14), 10, {.num_samples = 2, .beam = true}},
                                           {tokens_from(60, 21), 5000, {}},
                                           {tokens_from(10, 3), 4, {}},
                                           {tokens_from(20, 7), 40, {.num_samples = 2}},
                                           {tokens_from(70, 25), 3, {}},
                                           {tokens_from(30, 40), 2, {}}};
  const std::vector<std::pair<std::int64_t, std::array<std::int64_t, kMaxCacheGroups>>> groups{{1, {}}, {2, {0, 8}}, {2, {8, 12}}};
  for (const auto& [num_groups, windows] : groups) {
    std::vector<AdmissionView> asked;
    TestAdmission admission;
    admission.views = &asked;
    const BlockAllocatorConfig pool{
        .num_blocks = 8192, .block_size = 4, .max_seqs = 24, .num_groups = num_groups, .window_tokens = windows};
    SchedFixture f{pool, {.budget_tokens = 128, .max_seqs = 16, .max_chunk_tokens = 5, .share_prefixes = false}, {{}, admission, {}}};
    std::size_t compared = 0;
    for (std::uint64_t id = 0; id < requests.size(); ++id) {
      REQUIRE(f.submit(id, requests[id].prompt, requests[id].max_new, requests[id].spec));
      for (std::uint64_t i = 0; i < id % 3; ++i) {
        INFO("step " << i << " behind request " << id << ", windows of " << windows[0] << " and " << windows[1]);
        asked.clear();
        REQUIRE(f.plan());
        const auto expected = NaiveViews{f, requests}.all();
        REQUIRE(asked.size() == expected.size());
        for (std::size_t k = 0; k < expected.size(); ++k) CHECK(numbers_of(asked[k]) == numbers_of(expected[k]));
        compared += expected.size();
        f.seal();
        f.commit();
      }
    }
    CHECK(compared >= 6);
    for (std::uint64_t id = 0; id < requests.size(); ++id) f.scheduler.cancel(RequestId{id});
  }
}

TEST_CASE("sched.policies.admission.a_newcomer_gets_the_last_block", "[sched]") {
  SchedFixture f{{.num_blocks = 3, .block_size = 4, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 2}, with_admission(ReserveChunk{})};
  REQUIRE(f.submit(0, tokens_from(0, 5), 4));  // two blocks to the end
  f.step();
  REQUIRE(f.submit(1, tokens_from(20, 4), 1));
  REQUIRE(f.plan());
  CHECK(f.rows_of(1) == 4);
  f.scheduler.drop();
  f.run();
}
