/// \file AnswerSampler: draws the next tokens of all answers of a step, and decides on what only text can decide: stop strings, beams.
#pragma once

#include "engine/sampling/generation_request.hpp"
#include "engine/sampling/step_output.hpp"

#include <kvpage/base/expected.hpp>
#include <kvpage/sched/batch_plan.hpp>

#include <cstdint>
#include <memory>
#include <span>

namespace kvpage::engine {

class LanguageModel;
class Tokenizer;

/// Keeps for each request in flight how its tokens are drawn. One draw depends on the request, its own text, its seed, the position and
/// the answer's number; never on other rows or on the order of calls. Threads: one owner; the rows of a step are drawn on the model's.
class AnswerSampler {
 public:
  /// `tokenizer` makes the texts; null = no texts, and stop strings are refused. `end_tokens` sorted; both outlive the sampler.
  AnswerSampler(std::int64_t vocab_size, std::span<const TokenId> end_tokens, const Tokenizer* tokenizer);
  ~AnswerSampler();
  AnswerSampler(const AnswerSampler&) = delete;
  AnswerSampler& operator=(const AnswerSampler&) = delete;

  /// Whether the request can be sampled. Errors: a Refusal that names the field, its value and the limit; nothing was allocated.
  [[nodiscard]] Expected<void, Refusal> check(const GenerationRequest& request) const;
  /// Starts with a request whose prompt is not empty. Requires: check; the id is not in flight. Errors: std::bad_alloc; nothing is kept.
  void begin(RequestId id, const GenerationRequest& request);
  /// As if the request had never begun. Requires: it is in flight.
  void forget(RequestId id) noexcept;
  /// Tokens that end an answer: the model's and the request's own, sorted. Empty for a beam: which of its hypotheses have ended is known
  /// here alone. (Before min_tokens none of them can be drawn.)
  [[nodiscard]] std::span<const TokenId> scheduler_stop_tokens(RequestId id) const;

  /// Draws plan.samples from the logits of the step that `model` has just run. results: [plan.samples.size()].
  /// A row that cannot be sampled (NaN, an empty mask) is that answer's kError and nobody else's. Log-probabilities are 0 unless
  /// something needs them (num_logprobs, best_of, a beam). What was drawn counts once its event comes: a step that is aborted
  /// instead is drawn again, with the same tokens. Cost: no allocation once an answer runs, but for the log-probabilities kept,
  /// and for a beam whose stop strings end most of what a row offers: that row is ranked again, for twice as many continuations.
  /// Errors: the model's Status when logits could not be computed, or std::bad_alloc; then nothing has changed.
  [[nodiscard]] Status sample(const BatchPlan& plan, LanguageModel& model, std::span<SampleResult> results);

  /// The scheduler accepted a token or ended an answer: appends what clients see. Called in the order of the events.
  /// Errors: std::bad_alloc; then nothing has changed.
  void on_event(const RequestEvent& event, StepOutput& output);
  /// What an answer in flight has so far; of a beam, a hypothesis. Valid until the next call of something else.
  [[nodiscard]] std::span<const TokenId> tokens_of(RequestId id, std::uint32_t answer) const;
  /// The answers of a request whose last event came, best first if there was a choice, and forgets it.
  /// Errors: std::bad_alloc; then it may be called again.
  [[nodiscard]] std::vector<Answer> finish(RequestId id);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvpage::engine
