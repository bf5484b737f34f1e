/// \file RequestSampler: what the sampler keeps of a request in flight.
#pragma once

#include "engine/sampling/beam.hpp"
#include "engine/sampling/generation_request.hpp"
#include "engine/sampling/row_job.hpp"

#include <kvpage/sched/batch_plan.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvpage::engine {

/// One sampled answer, and the token of the step that was not committed yet.
struct SampledAnswer {
  AnswerDraft draft{};
  bool pending = false;  ///< `drawn` was pushed to the text, and nobody said that it counts
  DrawnToken drawn{};
  std::vector<TokenLogProb> top{};
};

/// A request in flight. It stays where it is: jobs point into it.
class RequestSampler {
 public:
  /// `end_tokens` sorted. Requires: the request was checked; tokenizer and end tokens outlive this object.
  RequestSampler(const GenerationRequest& request, std::span<const TokenId> end_tokens, const Tokenizer* tokenizer);
  RequestSampler(const RequestSampler&) = delete;
  RequestSampler& operator=(const RequestSampler&) = delete;

  [[nodiscard]] bool is_beam() const noexcept { return beam_.has_value(); }
  /// End tokens and the request's own, sorted.
  [[nodiscard]] std::span<const TokenId> stop_tokens() const noexcept { return stop_tokens_; }

  /// What is wanted of the row of a sample; `logits` is missing. Valid until the next step is settled.
  [[nodiscard]] RowJob job_for(const PlannedSample& sample, std::int64_t vocab_size, std::int64_t context_tokens);
  /// Whether the row of a beam's answer, which the job was run on, must be asked for more continuations.
  [[nodiscard]] bool needs_more(std::uint32_t answer, const RowJob& job, const RowResult& row) const {
    return beam_ && stops_ && !job.idle && !row.error && beam_->needs_more(answer, row, job.num_continuations);
  }
  /// A row of a sampled answer has its token. Returns what the scheduler is told.
  [[nodiscard]] SampleResult settle(std::uint32_t answer, const RowResult& row);
  /// All rows of a beam, one per answer, have their continuations. results: [width].
  void settle_beam(std::span<const RowResult> rows, std::span<SampleResult> results);

  /// The scheduler took the token of this event, or the answer ended, or both. Errors: std::bad_alloc; then nothing has changed.
  void on_event(const RequestEvent& event, StepOutput& output);
  [[nodiscard]] std::span<const TokenId> tokens_of(std::uint32_t answer) const noexcept {
    return beam_ ? beam_->ids(answer) : std::span<const TokenId>(samples_[answer].draft.ids);
  }
  /// The answers, best first if there was a choice. The state is used up. Errors: std::bad_alloc; then it may be called again.
  [[nodiscard]] std::vector<Answer> take_answers();

 private:
  [[nodiscard]] bool wants_logprobs() const noexcept { return num_logprobs_ >= 0; }
  [[nodiscard]] bool ends(TokenId id) const noexcept;
  void reserve(AnswerDraft& draft, std::int64_t room_tokens) const;
  void accept(SampledAnswer& answer, const RequestEvent& event, StepOutput& output);
  void show(SampledAnswer& answer, const RequestEvent& event, StepOutput& output) const;
  void forget_pending(SampledAnswer& answer);
  [[nodiscard]] std::vector<AnswerDraft*> best_drafts();

  SamplingParams params_;
  std::vector<LogitBias> logit_bias_;
  std::vector<TokenId> prompt_ids_;   // only if the repetition penalty reads them
  std::vector<TokenId> stop_tokens_;  // sorted
  std::optional<StopMatcher> stops_;
  std::int64_t max_tokens_;
  std::int64_t min_tokens_;
  std::int64_t num_answers_;          ///< that are given back
  std::int64_t num_logprobs_;
  bool temperature_last_;
  bool streams_;
  bool wants_scores_;                 ///< of sampled answers
  std::vector<SampledAnswer> samples_;  // [num_candidates], empty for a beam
  std::optional<Beam> beam_;
  FinishReason beam_finish_ = FinishReason::kNone;
};

}  // namespace kvpage::engine
