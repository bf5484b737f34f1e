/// \file Engine: many requests at once on one model: scheduler, page cache, forward pass and sampler put together.
#pragma once

#include "engine/answer_sampler.hpp"
#include "engine/engine_env.hpp"
#include "engine/engine_trace.hpp"
#include "engine/page_cache.hpp"
#include "engine/policy_names.hpp"
#include "engine/request_ledger.hpp"

#include <functional>
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
/// engine::Engine<engine::NamedPolicies, engine::SystemEnv> engine(model, {}, {}, env, end_tokens, &tokenizer);
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
  [[nodiscard]] Expected<Ticket, Refusal> submit(const GenerationRequest& request) {
    if (const auto checked = sampler_.check(request); !checked) return Unexpected{checked.error()};
    const RequestId id{next_id_};
    sampler_.begin(id, request);
    const auto ticket = scheduler_.submit(spec_of(id, request));
    if (!ticket) {
      static_cast<void>(sampler_.finish(id));
      return ticket;
    }
    ++next_id_;
    ledger_.open(*ticket, request, env_.now_ns());
    if (trace_) trace_.submit(id, request);
    return ticket;
  }

  /// Ends a request; what it has so far is its result, in the next StepOutput. False when no such request is in flight.
  bool cancel(RequestId id) { return scheduler_.cancel(id); }

  /// Runs one step: plan, transfers, forward pass, draws, commit. The output is valid until the next call.
  /// A failed step changes nothing and is tried again by the next call; from SchedulerConfig::max_aborts failures in a row on, `gave_up`
  /// says so, and the caller decides (usually: cancel what is in flight).
  const StepOutput& step() {
    output_ = StepOutput{};
    const std::int64_t begin_ns = env_.now_ns();
    const BatchPlan& plan = scheduler_.plan();
    if (plan.is_empty()) {
      scheduler_.drop();
      output_.idle = true;
    } else {
      run(plan);
      output_.num_tokens = plan.num_tokens(), output_.num_seqs = plan.num_seqs();
    }
    deliver_events();
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
  /// The environment of the scheduler: the engine's, the costs that were measured, and a list of events.
  struct SchedulerSide {
    Env* env;
    StepCosts measured{};
    std::vector<RequestEvent> events{};

    std::int64_t now_ns() { return env->now_ns(); }
    std::uint64_t draw_seed() { return env->draw_seed(); }
    std::pmr::memory_resource* memory() { return env->memory(); }
    StepCosts costs() const { return measured; }
    void on_event(const RequestEvent& event) { events.push_back(event); }

    /// Moving averages: of a row in steps with chunks, of a step of one answer alone, of a page that is copied.
    void learn_step(const BatchPlan& plan, std::int64_t duration_ns) {
      const std::int64_t rows = plan.num_tokens();
      if (rows == 0) return;
      if (rows == 1) {
        approach(measured.decode_ns_per_token, duration_ns);
      } else if (rows >= kChunkRows) {
        approach(measured.prefill_ns_per_token, duration_ns / rows);
      }
    }
    void learn_transfers(const BatchPlan& plan, std::int64_t duration_ns) {
      const auto pages = std::ssize(plan.demotions) + std::ssize(plan.promotions);
      if (pages > 0) approach(measured.copy_ns_per_block, duration_ns / pages);
    }

   private:
    static constexpr std::int64_t kChunkRows = 32;

    static void approach(std::int64_t& average, std::int64_t value) {
      average = std::max<std::int64_t>(1, average == 0 ? value : average + (value - average) / 8);
    }
  };
  using Scheduler = ContinuousScheduler<PageCache::Allocator, Policies, SchedulerSide>;

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

  void run(const BatchPlan& plan) {
    if (trace_) trace_.plan(plan);
    scheduler_.seal().value();
    if (trace_) trace_.transfers(plan);
    const std::int64_t sealed_ns = env_.now_ns();
    const auto promotions = cache_.begin_step(plan);
    env_.learn_transfers(plan, env_.now_ns() - sealed_ns);
    if (observer_) observer_(plan);
    const std::int64_t begin_ns = env_.now_ns();
    output_.status = compute(plan);
    if (output_.status.ok()) {
      env_.learn_step(plan, env_.now_ns() - begin_ns);
      ledger_.count_rows(plan);
      scheduler_.commit(results_, promotions);
    } else {
      output_.gave_up = !scheduler_.abort(std::ssize(promotions)).ok();
    }
  }

  /// The forward pass and the draws.
  Status compute(const BatchPlan& plan) {
    results_.resize(plan.samples.size());
    if (plan.num_tokens() == 0) return {};
    if (const Status status = model_.forward(plan); !status.ok()) return status;
    return sampler_.sample(plan, model_, results_);
  }

  void deliver_events() {
    for (const RequestEvent& event : env_.events) {
      const std::int64_t now_ns = env_.now_ns();
      ledger_.on_event(event, now_ns);
      sampler_.on_event(event, output_);
      if (trace_ && event.finish != FinishReason::kNone) trace_.finish(event, sampler_.tokens_of(event.request, event.child));
      if (!event.last) continue;
      output_.finished.push_back(ledger_.close(event.request));
      output_.finished.back().answers = sampler_.finish(event.request);
    }
    env_.events.clear();
    if (trace_ && !output_.finished.empty()) trace_.capacity(cache_.allocator().capacity());
  }

  LanguageModel& model_;
  SchedulerSide env_;
  PageCache cache_;
  AnswerSampler sampler_;
  Scheduler scheduler_;
  RequestLedger ledger_;
  std::vector<SampleResult> results_;
  StepOutput output_;
  std::function<void(const BatchPlan&)> observer_;
  EngineTrace trace_;
  std::uint64_t next_id_ = 1;
};

}  // namespace kvpage::engine
