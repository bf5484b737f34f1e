/// \file SchedFixture: an allocator, a scheduler and the toy model on a clock that tests set, and the shortest way to run them.
#pragma once

#include <kvpage/cache/tiered_allocator.hpp>
#include <kvpage/sched/continuous_scheduler.hpp>
#include <kvpage/sched/any_policies.hpp>

#include "support/catch.hpp"
#include "tools/simulator/sim_tier.hpp"
#include "tools/simulator/toy_model.hpp"
#include "tools/simulator/toy_oracle.hpp"

#include <map>
#include <numeric>

namespace kvpage_test {

using Tokens = std::vector<kvpage::TokenId>;

/// Blocks that got a new owner, for the toy to poison.
struct AllocRecorder {
  static constexpr bool kEnabled = true;
  std::vector<kvpage::BlockId>* taken = nullptr;
  void on_event(const kvpage::CacheEvent& event) {
    if (event.kind == kvpage::CacheEventKind::kAlloc && taken != nullptr) taken->push_back(event.block);
  }
};
using SchedCache =
    kvpage::TieredAllocator<kvpage::BlockAllocator<kvpage::PrefixIndex<>, kvpage::Lru, AllocRecorder>, kvpage::SimTier::Tier>;

struct TestEnv {
  std::int64_t time_ns = 0;
  std::uint64_t seed = 0;
  std::vector<kvpage::RequestEvent> events{};
  std::pmr::memory_resource* resource = std::pmr::get_default_resource();
  kvpage::StepCosts step_costs{};
  std::int64_t now_ns() const { return time_ns; }
  std::uint64_t draw_seed() const { return seed; }
  std::pmr::memory_resource* memory() const { return resource; }
  kvpage::StepCosts costs() const { return step_costs; }
  void on_event(const kvpage::RequestEvent& event) { events.push_back(event); }
};

inline Tokens tokens_from(kvpage::TokenId first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Any admission. A test that names none fills the pool: the most preemptions. What it decides on goes to `views`.
struct TestAdmission : kvpage::AnyAdmission {
  TestAdmission(const Kinds& admission = kvpage::ReserveChunk{}) : AnyAdmission(admission) {}
  TestAdmission(const AnyAdmission& admission) : AnyAdmission(admission) {}
  std::int64_t needed_blocks(const kvpage::AdmissionView& view) const {
    if (views != nullptr) views->push_back(view);
    return AnyAdmission::needed_blocks(view);
  }
  std::vector<kvpage::AdmissionView>* views = nullptr;
};

/// Every policy behind one type: the tests compile one scheduler.
using Policies = kvpage::SchedulerPolicies<kvpage::AnyOrder, TestAdmission>;

class SchedFixture {
 public:
  static constexpr kvpage::TokenId kVocab = 97;

  /// With `tier_slots`, a host tier of so many pages.
  SchedFixture(const kvpage::BlockAllocatorConfig& pool, const kvpage::SchedulerConfig& config, const Policies& policies = {},
               const TestEnv& environment = {}, std::int64_t tier_slots = 0)
      : env(environment),
        memory_(SchedCache::required_bytes(pool, options(tier_slots))),
        cache(pool, memory_, options(tier_slots), kvpage::Lru{}, AllocRecorder{&taken_}),
        toy(cache.config()),
        scheduler(config, cache, policies, env) {
    if (tier_slots == 0) return;
    const auto page_bytes = pool.block_size * static_cast<std::int64_t>(sizeof(std::uint64_t));
    tier.emplace(kvpage::OffloadTierConfig{.num_slots = tier_slots, .page_bytes = page_bytes, .block_size = pool.block_size});
    cache.use_tier(&tier->tier);
  }

  static SchedCache::IndexOptions options(std::int64_t tier_slots) {
    SchedCache::IndexOptions options{kvpage::SipSecret::fixed(1, 2)};
    options.portable_keys = tier_slots > 0;
    return options;
  }

  auto submit(std::uint64_t id, const Tokens& prompt, std::int64_t max_new, kvpage::RequestSpec spec = {}) {
    spec.id = kvpage::RequestId{id};
    spec.prompt = prompt;
    spec.max_new_tokens = max_new;
    return scheduler.submit(spec);
  }

  /// Plans and checks a step; false when it is empty (and dropped).
  bool plan() {
    batch = &scheduler.plan();
    const auto valid = kvpage::validate(*batch, cache.config().block_size);
    if (!valid) FAIL("plan: " << valid.error().rule << " at " << valid.error().index);
    REQUIRE(batch->num_tokens() <= scheduler.config().budget_tokens);
    if (!batch->is_empty()) return true;
    scheduler.drop();
    return false;
  }
  void seal() {
    taken_.clear();
    scheduler.seal().value();
    if (!tier) overwrite();
  }
  /// What a step takes for new content may be overwritten, also when it is aborted.
  void overwrite() {
    for (const kvpage::BlockId block : taken_) toy.poison(block);
    taken_.clear();
  }
  /// Demotions, then whatever overwrites them, then promotions; page `lost_page` comes back damaged.
  void run_transfers() {
    for (const auto& [block, slot] : batch->demotions) tier->tier.demote(slot, toy.page(block)).value();
    overwrite();
    outcomes.clear();
    for (const auto& [block, slot] : batch->promotions) {
      if (std::exchange(lost_page, lost_page - 1) == 0) tier->damage(slot, 3);
      const bool arrived = tier->tier.promote(slot, toy.page(block)).has_value();
      outcomes.push_back(arrived ? kvpage::PromotionOutcome::kArrived : kvpage::PromotionOutcome::kFailed);
    }
  }
  void run_model() {
    run_transfers();
    const auto logits = toy.run(*batch);
    results.clear();
    for (const kvpage::PlannedSample& sample : batch->samples) {
      results.push_back({.token = kvpage::toy::draw(logits[static_cast<std::size_t>(sample.logit_index)], sample, kVocab)});
    }
  }
  void commit() {
    run_model();
    scheduler.commit(results, outcomes);
    cache.check_invariants();
  }
  bool step() {
    if (!plan()) return false;
    seal();
    commit();
    return true;
  }
  std::int64_t run() {
    std::int64_t steps = 0;
    while (step()) ++steps;
    REQUIRE(scheduler.num_requests() == 0);
    CHECK(cache.capacity().available() == cache.capacity().num_blocks);
    if (tier) CHECK(tier->tier.capacity().in_flight == 0);
    return steps;
  }

  /// Rows that the plan gives a request.
  std::int64_t rows_of(std::uint64_t id) const {
    std::int64_t rows = 0;
    for (std::size_t s = 0; s < batch->sequences.size(); ++s) {
      if (batch->owners[s].request.value == id) rows += batch->sequences[s].q_count;
    }
    return rows;
  }
  Tokens text(std::uint64_t id, std::uint32_t child = 0) const {
    Tokens tokens;
    for (const auto& event : env.events) {
      if (event.request.value == id && event.child == child && event.has_token) tokens.push_back(event.token);
    }
    return tokens;
  }
  kvpage::FinishReason reason(std::uint64_t id, std::uint32_t child = 0) const {
    for (const auto& event : env.events) {
      if (event.request.value == id && event.child == child && event.finish != kvpage::FinishReason::kNone) return event.finish;
    }
    return kvpage::FinishReason::kNone;
  }
  /// What the request alone, with unlimited memory, would have said.
  Tokens expected(const Tokens& prompt, std::int64_t max_new, std::uint32_t child = 0, std::uint64_t seed = 0) const {
    return kvpage::toy_text(cache.config(), {.prompt = prompt, .max_new_tokens = max_new, .seed = seed}, child, kVocab);
  }

  TestEnv env;

 private:
  std::vector<std::byte> memory_;
  std::vector<kvpage::BlockId> taken_;

 public:
  std::optional<kvpage::SimTier> tier;
  SchedCache cache;
  kvpage::ToyModel toy;
  kvpage::ContinuousScheduler<SchedCache, Policies, TestEnv> scheduler;
  const kvpage::BatchPlan* batch = nullptr;
  std::vector<kvpage::SampleResult> results;
  std::vector<kvpage::PromotionOutcome> outcomes;
  std::int64_t lost_page = -1;  ///< counts down over the promotions to come; negative = none
};

}  // namespace kvpage_test
