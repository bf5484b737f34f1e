/// \file Engine: many requests at once on one model: scheduler, page cache, forward pass and sampler put together.
#pragma once

#include "engine/answer_sampler.hpp"
#include "engine/engine_env.hpp"
#include "engine/engine_trace.hpp"
#include "engine/page_cache.hpp"
#include "engine/request_ledger.hpp"
#include "engine/scheduler_side.hpp"

#include <kvpage/sched/any_policies.hpp>
#include <kvpage/sched/continuous_scheduler.hpp>

#include <functional>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// Limits of an engine.
struct EngineConfig {
  /// budget_tokens and context_limit 0: those of the model. `share_prefixes` is taken from `cache`.
  SchedulerConfig limits{.budget_tokens = 0, .max_seqs = 32, .context_limit = 0};
  PageCacheOptions cache{};  ///< its max_seqs is derived from the limits
};

/// Continuous batching on a LanguageModel.
///
/// ```cpp
/// engine::SystemEnv env;
/// engine::Engine<NamedPolicies, engine::SystemEnv> engine(model, {}, {}, env, end_tokens, &tokenizer);
/// auto ticket = engine.submit({.prompt_ids = ids, .max_tokens = 64});  // or a Refusal with both numbers
/// while (engine.num_requests() > 0) {
///   const engine::StepOutput& step = engine.step();
///   for (const auto& token : step.tokens) std::cout << token.text;
/// }
/// ```
///
/// Policies: SchedulerPolicies of the library, shipped ones by name (NamedPolicies) or a user's own types. What differs between backends
/// and KV formats is behind LanguageModel: an engine per backend would only compile the scheduler once more for each.
/// Threads: one owner; `step` computes on the model's threads. Requires: model, env, end tokens and tokenizer outlive it; one engine or
/// SequenceRunner per model.
template <class Policies, EngineEnv Env>
class Engine {
 public:
  /// `end_tokens` sorted: the model's own. `tokenizer` null: no texts, no stop strings. Errors: ConfigError.
  Engine(LanguageModel& model, const EngineConfig& config, const Policies& policies, Env& env, std::span<const TokenId> end_tokens,
         const Tokenizer* tokenizer)
      : model_(model),
        env_{.env = &env},
        cache_(model, cache_options(config)),
        sampler_(model.spec().vocab_size, end_tokens, tokenizer),
        scheduler_(limits_for(config, model), cache_.allocator(), policies, env_) {}

  /// Accepts a request, or refuses it with the rule, the value and the limit; nothing is kept for a refused one.
  /// Errors: std::bad_alloc; nothing is kept then either.
  [[nodiscard]] Expected<Ticket, Refusal> submit(const GenerationRequest& request) {
    if (const auto checked = sampler_.check(request); !checked) return Unexpected{checked.error()};
    const RequestId id{next_id_};
    sampler_.begin(id, request);
    ForgetUnlessAccepted records{*this, id};
    ledger_.open(id, request);
    env_.make_room(request.num_candidates());
    const auto ticket = scheduler_.submit(spec_of(id, request));
    if (!ticket) return ticket;
    records.accepted = true;
    ++next_id_;
    env_.open_answers += request.num_candidates();
    ledger_.accept(*ticket, env_.now_ns());
    trace_.submit(id, request);
    return ticket;
  }

  /// Ends a request; what it has so far is its result, in the next StepOutput. False when no such request is in flight.
  bool cancel(RequestId id) { return scheduler_.cancel(id); }

  /// Runs one step: plan, transfers, forward pass, draws, commit. The output is valid until the next call.
  /// A failed step changes nothing and is tried again by the next call; from SchedulerConfig::max_aborts failures in a row on, `gave_up`
  /// says so, and the caller decides (usually: cancel what is in flight). A step that finds no memory (std::bad_alloc) is a failed one;
  /// what it could not hand on of its tokens and ends comes with the next call.
  /// Cost: no allocation once answers run and the memory of steps has grown to their sizes, but for log-probabilities that answers keep
  /// (num_logprobs > 0), beams, ends of answers, and texts of more than 4 bytes per allowed token.
  const StepOutput& step() {
    output_.clear();
    const std::int64_t begin_ns = env_.now_ns();
    if (!owes_events_) plan_and_run();
    deliver_events();
    failures_in_a_row_ = output_.status.ok() ? 0 : failures_in_a_row_ + 1;
    output_.gave_up = failures_in_a_row_ >= limits().max_aborts;
    output_.duration_ns = env_.now_ns() - begin_ns;
    return output_;
  }

  /// Gets each plan between its seal and the forward pass: for tests, for baselines, for whoever counts.
  void on_plan(std::function<void(const BatchPlan&)> observer) { observer_ = std::move(observer); }
  /// Records requests, steps and pages; null = no more. Requires: no request is in flight; the recorder outlives the engine or the next
  /// call.
  void record_into(TraceRecorder* recorder) noexcept {
    trace_ = EngineTrace(recorder);
    cache_.record_into(recorder);
  }

  [[nodiscard]] std::int64_t num_requests() const noexcept { return scheduler_.num_requests(); }
  [[nodiscard]] std::int64_t num_waiting() const noexcept { return scheduler_.num_waiting(); }
  [[nodiscard]] std::int64_t num_running() const noexcept { return scheduler_.num_running(); }
  [[nodiscard]] const SchedulerStats& stats() const noexcept { return scheduler_.stats(); }
  [[nodiscard]] const SchedulerConfig& limits() const noexcept { return scheduler_.config(); }
  [[nodiscard]] PageCache& cache() noexcept { return cache_; }
  [[nodiscard]] const PageCache& cache() const noexcept { return cache_; }
  [[nodiscard]] LanguageModel& model() noexcept { return model_; }

  /// Takes row and blocks of a running request; it goes on later with the same text. Returns how many of its answers lost them.
  std::int64_t preempt(RequestId id) { return scheduler_.preempt(id); }
  /// Gives a request another priority. The value is false when no such request is in flight. Errors: kBadParameter.
  Expected<bool, Refusal> set_priority(RequestId id, std::int64_t priority) { return scheduler_.set_priority(id, priority); }
  /// Refuses new requests from now on; those in flight go on.
  void shut_down() noexcept { scheduler_.shut_down(); }

 private:
  using Scheduler = ContinuousScheduler<PageCache::Allocator, Policies, SchedulerSide<Env>>;

  /// What was kept for a request goes, unless it was accepted.
  struct ForgetUnlessAccepted {
    Engine& engine;
    RequestId id;
    bool accepted = false;

    ~ForgetUnlessAccepted() {
      if (accepted) return;
      engine.sampler_.forget(id);
      engine.ledger_.forget(id);
    }
  };

  static SchedulerConfig limits_for(const EngineConfig& config, const LanguageModel& model) {
    SchedulerConfig limits = config.limits;
    limits.share_prefixes = config.cache.share_prefixes;
    if (limits.budget_tokens == 0) limits.budget_tokens = model.step_tokens();
    if (limits.budget_tokens > model.step_tokens()) {
      throw_config_error("budget_tokens is above the rows that the model was loaded for", limits.budget_tokens, model.step_tokens(),
                         "tokens");
    }
    if (limits.context_limit == 0) limits.context_limit = model.context_tokens();
    return limits;
  }
  /// Beside the sequences of a step there are parked ones, and forks that are made before others end.
  static PageCacheOptions cache_options(const EngineConfig& config) {
    PageCacheOptions options = config.cache;
    options.max_seqs = 2 * config.limits.max_seqs + 8;
    return options;
  }

  RequestSpec spec_of(RequestId id, const GenerationRequest& request) const {
    return {.id = id,
            .prompt = request.prompt_ids,
            .max_new_tokens = request.max_tokens,
            .num_samples = request.num_candidates(),
            .beam = request.beam_width > 1,
            .name_space = cache_.name_space(),
            .stop_tokens = sampler_.scheduler_stop_tokens(id),
            .seed = request.seed,
            .priority = request.priority,
            .tenant = request.tenant,
            .start_by_ns = request.start_by_ns,
            .finish_by_ns = request.finish_by_ns};
  }

  void plan_and_run() {
    const BatchPlan* plan = nullptr;
    try {
      plan = &scheduler_.plan();
    } catch (const std::bad_alloc&) {
      return fail_without_memory();
    }
    if (plan->is_empty()) {
      scheduler_.drop();
      output_.idle = true;
      return;
    }
    run(*plan);
    output_.num_tokens = plan->num_tokens(), output_.num_seqs = plan->num_seqs();
  }

  /// Memory is taken before the commit only: a step that has run counts.
  void run(const BatchPlan& plan) {
    trace_.plan(plan);
    scheduler_.seal().value();
    trace_.transfers(plan);
    std::span<const PromotionOutcome> promotions;
    try {
      const std::int64_t sealed_ns = env_.now_ns();
      promotions = cache_.begin_step(plan);
      env_.learn_transfers(plan, env_.now_ns() - sealed_ns);
      if (observer_) observer_(plan);
      const std::int64_t begin_ns = env_.now_ns();
      output_.status = compute(plan);
      if (output_.status.ok()) env_.learn_step(plan, env_.now_ns() - begin_ns);
    } catch (const std::bad_alloc&) {
      output_.status = kNoMemory;
    }
    if (output_.status.ok()) {
      ledger_.count_rows(plan);
      scheduler_.commit(results_, promotions);
    } else {
      static_cast<void>(scheduler_.abort(std::ssize(promotions)));  // `step` counts failures of every kind
    }
  }

  void fail_without_memory() {
    if (output_.status.ok()) output_.status = kNoMemory;
  }

  /// The forward pass and the draws.
  Status compute(const BatchPlan& plan) {
    results_.resize(plan.samples.size());
    if (plan.num_tokens() == 0) return {};
    if (const Status status = model_.forward(plan); !status.ok()) return status;
    return sampler_.sample(plan, model_, results_);
  }

  /// Those that find no memory stay for the next call.
  void deliver_events() {
    try {
      for (; next_event_ < env_.events.size(); ++next_event_) deliver(env_.events[next_event_]);
    } catch (const std::bad_alloc&) {
      owes_events_ = true;
      return fail_without_memory();
    }
    env_.events.clear();
    next_event_ = 0;
    owes_events_ = false;
    if (!output_.finished.empty()) trace_.capacity(cache_.allocator().capacity());
  }

  /// All or nothing, except that the sampler hears of an event once.
  void deliver(const RequestEvent& event) {
    const std::int64_t now_ns = env_.now_ns();
    if (!sampler_knows_event_) {
      sampler_.on_event(event, output_);
      sampler_knows_event_ = true;
      if (event.finish != FinishReason::kNone) trace_.finish(event, sampler_.tokens_of(event.request, event.child));
    }
    std::vector<Answer> answers;
    if (event.last) {
      if (output_.finished.size() == output_.finished.capacity()) output_.finished.reserve(2 * output_.finished.size() + 1);
      answers = sampler_.finish(event.request);
    }
    sampler_knows_event_ = false;
    ledger_.on_event(event, now_ns);
    if (!event.last) return;
    output_.finished.push_back(ledger_.close(event.request));
    output_.finished.back().answers = std::move(answers);
  }

  static constexpr Status kNoMemory{StatusCode::kOutOfMemory, "there was no memory for a step of the engine"};

  LanguageModel& model_;
  SchedulerSide<Env> env_;
  PageCache cache_;
  AnswerSampler sampler_;
  Scheduler scheduler_;
  RequestLedger ledger_;
  std::vector<SampleResult> results_;
  StepOutput output_;
  std::size_t next_event_ = 0;         ///< to be delivered
  bool sampler_knows_event_ = false;   ///< that event
  bool owes_events_ = false;           ///< of an earlier step
  std::int64_t failures_in_a_row_ = 0;
  std::function<void(const BatchPlan&)> observer_;
  EngineTrace trace_;
  std::uint64_t next_id_ = 1;
};

}  // namespace kvpage::engine
