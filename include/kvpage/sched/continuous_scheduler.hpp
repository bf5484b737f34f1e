/// \file ContinuousScheduler: decides which tokens of which requests run in the next step.
#pragma once

#include <kvpage/sched/detail/commit.hpp>
#include <kvpage/sched/detail/plan.hpp>
#include <kvpage/sched/detail/seal.hpp>
#include <kvpage/sched/detail/submit.hpp>
#include <kvpage/sched/detail/write_plan.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Continuous batching over a BlockAllocator, without a model.
///
/// One rule makes prefill, chunks, prefix hits and decode: a sequence with fewer computed tokens than tokens gets rows until it has
/// caught up, and the row of its last token gives logits. Each step is planned, looked at, and then sealed or dropped:
///
/// ```cpp
/// using Scheduler = kvpage::ContinuousScheduler<Allocator, kvpage::SchedulerPolicies<>, Env>;
/// Scheduler scheduler{{.budget_tokens = 512, .max_seqs = 32}, allocator, {}, env};
/// auto ticket = scheduler.submit({.id = RequestId{1}, .prompt = prompt, .max_new_tokens = 64});  // or a Refusal with both numbers
///
/// while (scheduler.num_requests() > 0) {
///   const kvpage::BatchPlan& batch = scheduler.plan();  // plain data; nothing has happened yet
///   if (batch.is_empty()) { scheduler.drop(); wait_for_requests(); continue; }
///   scheduler.seal().value();                           // now it has
///   std::vector<kvpage::SampleResult> results = run_model(batch);  // one per batch.samples
///   scheduler.commit(results);                          // or abort(): as if the step had never been
/// }                                                     // tokens and ends arrive in env.on_event
/// ```
///
/// Liveness: among those that run, the one with the smallest key leads, or one that is guarded because it waited or gave way too often,
/// until it has gained a token. The leader is planned first, nobody takes its blocks, and every sealed step advances it. So every request
/// ends, whatever comes meanwhile; docs/scheduling.md has the proof. What each request gets never depends on the others. A load from a
/// host tier counts as an advance: behind it, or when it failed, the leader computes.
///
/// Over a TieredAllocator that has a tier, steps also move pages between pool and tier:
///
/// ```cpp
/// scheduler.seal().value();  // fills batch.demotions: what the step is about to overwrite
/// for (const auto& [block, slot] : batch.demotions) {
///   if (!tier.demote(slot, page_of(block))) ++lost;       // to the tier; nothing else is lost
/// }
/// std::vector<kvpage::PromotionOutcome> outcomes;         // one per batch.promotions; kFailed makes the hit shorter
/// for (const auto& [block, slot] : batch.promotions) {
///   const bool arrived = tier.promote(slot, page_of(block)).has_value();  // or, to give it up, tier.release(slot)
///   outcomes.push_back(arrived ? kvpage::PromotionOutcome::kArrived : kvpage::PromotionOutcome::kFailed);
/// }
/// scheduler.commit(run_model(batch), outcomes);           // copies and forward pass as always; or abort(outcomes.size())
/// ```
///
/// A waiting request whose tokens go on in the tier gets blocks and no rows for one step (RequestState::kLoading), unless StepCosts say
/// that computing them is as cheap, and runs on behind what arrived. An answer for which a page did not come loads no more. Preemption by
/// "demote" moves nothing itself: the victim's full blocks are published, whoever overwrites them saves them, and the victim comes back
/// as a hit that the tier continues.
///
/// Cache: a BlockAllocator whose sequences belong to this scheduler; it needs max_seqs + spare ids for parked and reordered sequences.
/// Env: a SchedulerEnv. Memory: taken in submit, and in plan until its vectors have grown; never in seal or commit.
/// Errors: the constructor throws ConfigError; submit refuses; submit and plan throw std::bad_alloc and change nothing then; everything
/// else keeps its contract or asserts.
/// Threads: one owner. Cost: plan + commit O(running + admitted + examined waiting), removal from the queue O(log waiting).
template <SchedulableCache Cache, SchedulerPolicySet Policies, SchedulerEnv Env>
class ContinuousScheduler {
  using Core = detail::SchedulerCore<Cache, Policies, Env>;

 public:
  /// `cache` and `env` outlive the scheduler. Errors: ConfigError.
  ContinuousScheduler(const SchedulerConfig& config, Cache& cache, const Policies& policies, Env& env)
      : core_(config, cache, policies, env) {
    config.check();
    const BlockAllocatorConfig& pool = cache.config();
    if (pool.max_seqs < config.max_seqs) {
      throw_config_error("the cache needs at least max_seqs sequences", pool.max_seqs, config.max_seqs, "sequences");
    }
    if (core_.pool_tokens < 1) throw_config_error("the pool needs a block per group", pool.num_blocks, pool.num_groups, "blocks");
    core_.reserve();
  }
  ContinuousScheduler(const ContinuousScheduler&) = delete;
  ContinuousScheduler& operator=(const ContinuousScheduler&) = delete;

  /// Accepts a request, with fewer new tokens when the context or the pool allows no more; or refuses and allocates nothing.
  [[nodiscard]] Expected<Ticket, Refusal> submit(const RequestSpec& spec) {
    core_.now();
    auto ticket = detail::check_request(core_, spec);
    if (ticket) ticket->seed = spec.seed ? *spec.seed : core_.env->draw_seed();
    if (ticket) detail::accept_request(core_, spec, *ticket);
    return ticket;
  }

  /// Ends a request. Idempotent; false when no such request is in flight. With a step in flight its result is dropped; its blocks are
  /// free when the step is over. Requires: called outside of on_event.
  bool cancel(RequestId id) {
    const std::uint32_t family = core_.requests.find(id);
    if (family == kNoRequestSlot) return false;
    detail::end_request(core_, family, FinishReason::kCancelled);
    return true;
  }

  /// Takes row and blocks of every running answer of a request that no step in flight works on; it goes on later, with the same text.
  /// Returns how many lost them.
  std::int64_t preempt(RequestId id) {
    KVPAGE_ASSERT(core_.step.stage == detail::StepStage::kIdle, "preempt is called between steps");
    const std::uint32_t family = core_.requests.find(id);
    std::int64_t count = 0;
    if (family == kNoRequestSlot) return count;
    core_.requests.for_each_open(family, [&](std::uint32_t slot) {
      Request& r = core_.requests[slot];
      if (r.state != RequestState::kRunning) return;
      const PreemptionKind kind = detail::preemption_cost(core_, r).kind;
      detail::release_blocks(core_, r.seq);
      detail::apply_victim(core_, {.slot = slot, .seq = r.seq, .kind = kind});
      ++count;
    });
    return count;
  }

  /// Gives a request another base priority; its place in the order follows. The value is false when no such request is in flight.
  /// Requires: no plan open, no step sealed. Errors: kBadParameter outside of [0, kMaxPriority]; nothing has changed.
  Expected<bool, Refusal> set_priority(RequestId id, std::int64_t priority) {
    KVPAGE_ASSERT(core_.step.stage == detail::StepStage::kIdle, "set_priority is called between steps");
    if (const auto checked = detail::check_priority(priority); !checked) return Unexpected{checked.error()};
    const std::uint32_t family = core_.requests.find(id);
    if (family == kNoRequestSlot) return false;
    detail::change_priority(core_, family, priority);
    return true;
  }

  /// Makes the next plan. It is empty when there is nothing to do. Follow with `seal` or `drop`.
  /// Requires: no plan open, no step sealed.
  const BatchPlan& plan() {
    KVPAGE_ASSERT(core_.step.stage == detail::StepStage::kIdle, "the last plan was dropped, or its step committed or aborted");
    detail::end_expired(core_, core_.now());
    ForgetUnlessPlanned open{core_};
    for (bool may_yield = true; make_plan() && may_yield;) may_yield = yield_pins();
    detail::write_plan(core_);
    open.planned = true;
    core_.step.stage = detail::StepStage::kOpen;
    return core_.step.batch;
  }

  /// Makes the plan true, just before it is launched; the BatchPlan stays readable until commit or abort.
  /// Errors: kBusy when another user of the cache has steps in flight; the plan stays open.
  CacheResult<StepId> seal() {
    KVPAGE_ASSERT(core_.step.stage == detail::StepStage::kOpen, "a plan is open");
    return detail::seal_plan(core_);
  }

  /// Forgets the open plan.
  void drop() {
    KVPAGE_ASSERT(core_.step.stage == detail::StepStage::kOpen, "a plan is open");
    detail::drop_plan(core_);
  }

  /// The sealed step has run. `results`: one per sample of its plan, `promotions`: one per promotion, in order. A demotion that the
  /// caller did not carry out is cancelled.
  void commit(std::span<const SampleResult> results, std::span<const PromotionOutcome> promotions = {}) {
    KVPAGE_ASSERT(core_.step.stage == detail::StepStage::kSealed, "a step is sealed");
    KVPAGE_ASSERT(results.size() == core_.step.batch.samples.size(), "every sample of the plan has a result");
    KVPAGE_ASSERT(promotions.size() == core_.step.batch.promotions.size(), "every promotion of the plan has an outcome");
    const bool done = core_.cache->commit(core_.step.id).has_value();
    KVPAGE_ASSERT(done, "the sealed step is the oldest one");
    core_.now();
    core_.aborts_in_a_row = 0;
    detail::StepCommit<Core>{core_, results, promotions}.run();
  }

  /// The sealed step failed or was lost: nothing of it counts, and everything will be planned again. Requires: it does not run any
  /// more. `num_promoted`: promotions that were carried out, whatever came of them; they are the first ones of the plan.
  /// Errors: kDeviceError from the max_aborts-th abort in a row on; no request is lost.
  Status abort(std::int64_t num_promoted = 0) {
    KVPAGE_ASSERT(core_.step.stage == detail::StepStage::kSealed, "a step is sealed");
    core_.now();
    detail::abort_sealed_step(core_, core_.step.id, num_promoted);
    if (core_.aborts_in_a_row < core_.config.max_aborts) return {};
    return {StatusCode::kDeviceError, "steps fail one after the other", core_.aborts_in_a_row, core_.config.max_aborts};
  }

  /// Refuses new requests from now on; those in flight go on.
  void shut_down() noexcept { core_.shutting_down = true; }

  [[nodiscard]] std::int64_t num_requests() const noexcept { return core_.requests.num_requests(); }
  [[nodiscard]] std::int64_t num_waiting() const noexcept { return core_.waiting.size(); }
  [[nodiscard]] std::int64_t num_running() const noexcept { return static_cast<std::int64_t>(core_.running.size()); }
  [[nodiscard]] const SchedulerStats& stats() const noexcept { return core_.stats; }
  [[nodiscard]] const SchedulerConfig& config() const noexcept { return core_.config; }
  [[nodiscard]] const Policies& policies() const noexcept { return core_.policies; }
  /// The step that is planned or sealed: does it advance the leader?
  [[nodiscard]] bool leader_advanced() const noexcept { return core_.plan.leader_advanced; }
  /// What the account of a tenant's last request was charged, by an order that keeps accounts; 0 for other orders.
  [[nodiscard]] std::int64_t tenant_charge(std::uint32_t tenant) const {
    const auto at = core_.tenants.find(tenant);
    const auto& lanes = core_.waiting.lanes();  // a tenant whose first request found no memory may be without
    return at == core_.tenants.end() || at->second.lane >= lanes.size() ? 0 : lanes[at->second.lane].charge;
  }
  /// An answer in flight, to look at; nullptr when there is none.
  [[nodiscard]] const Request* find(RequestId id, std::uint32_t child = 0) const {
    std::uint32_t slot = core_.requests.find(id);
    while (slot != kNoRequestSlot && core_.requests[slot].child != child) slot = core_.requests[slot].next_sibling;
    return slot == kNoRequestSlot || core_.requests[slot].ended ? nullptr : &core_.requests[slot];
  }

 private:
  /// A plan that ends with an exception leaves no transaction open and no page of the host tier held.
  struct ForgetUnlessPlanned {
    Core& core;
    bool planned = false;

    ~ForgetUnlessPlanned() {
      if (!planned) detail::forget_transaction(core);
    }
  };

  /// True when the leader got no row although pins hold blocks.
  bool make_plan() {
    detail::begin_plan(core_);
    detail::plan_step(core_);
    return !core_.plan.leader_advanced && core_.plan.leader != kNoRequestSlot && core_.cache->capacity().pinned > 0;
  }

  /// Pins give way to a leader that finds no block, least valuable first. False when none could.
  bool yield_pins() {
    if constexpr (Core::kIndexed) {
      detail::forget_transaction(core_);
      const auto ended = core_.cache->yield_pins(core_.cache->capacity().available() + core_.num_groups);
      core_.stats.yielded_pins += ended.value_or(0);
      return ended.value_or(0) > 0;
    }
    return false;
  }

  Core core_;
};

KVPAGE_END_NAMESPACE
