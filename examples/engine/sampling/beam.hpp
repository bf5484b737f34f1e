/// \file Beam: the hypotheses of a beam search, which tokens they go on with, and when no better one can come.
#pragma once

#include "engine/sampling/answer_draft.hpp"
#include "engine/sampling/row_job.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace kvpage::engine {

/// What a beam search is asked for.
struct BeamConfig {
  std::int64_t width = 1;
  double length_penalty = 1;
  std::int64_t max_tokens = 1;
  bool keep_logprobs = false;
  std::span<const TokenId> stop_tokens{};  ///< sorted: model's and request's; they outlive the beam
};

/// Beam search over answers that run in lockstep.
///
/// Each step ranks the continuations of all live hypotheses by summed log-probability (after mask, bias and penalties, renormalised;
/// ties: lowest source, then lowest id). In that order, a continuation that ends with a stop token or completes a stop string becomes a
/// finished hypothesis, until `width` others are found, however many end: these live on. A finished hypothesis scores
/// log-probability / tokens^length_penalty, its end token counted in both. The search stops when `width` are finished and no live one
/// can still score more than the worst of them: log-probabilities only fall, so its bound is its present sum at the most favourable
/// length. Stopping early therefore never changes the result.
/// A step is first proposed and then accepted: a step that is lost, or whose tokens nobody wanted, leaves no trace.
/// Source: Lowerre 1976 (beam search); Wu et al. 2016, arXiv 1609.08144, section 7 (length normalisation; here with a plain power).
class Beam {
 public:
  /// `empty`: an answer without tokens, with its text.
  Beam(const BeamConfig& config, const AnswerDraft& empty);

  /// Continuations that a row is asked for at first: enough for `width` that go on when every stop token is among them. Stop strings may
  /// end more of them.
  [[nodiscard]] std::int64_t num_continuations() const noexcept {
    return 2 * config_.width + static_cast<std::int64_t>(config_.stop_tokens.size());
  }
  /// Whether the row of hypothesis `c` matters. At first all are the same one; later some may have nothing to go on with.
  [[nodiscard]] bool is_live(std::int64_t c) const noexcept { return (started_ || c == 0) && !is_dead(live_[static_cast<std::size_t>(c)]); }
  /// Whether stop strings end so many of the row's continuations that fewer than `width` go on, and the row has more to give.
  /// `asked`: continuations that it was asked for.
  [[nodiscard]] bool needs_more(std::int64_t c, const RowResult& row, std::int64_t asked) const;
  [[nodiscard]] std::span<const TokenId> ids(std::int64_t c) const noexcept { return live_[static_cast<std::size_t>(c)].ids; }

  /// Finds the next hypotheses. rows: [width], the results of the live ones. Returns true when the search is over.
  bool propose(std::span<const RowResult> rows);
  /// The answer that proposed hypothesis `c` continues, and its new token.
  [[nodiscard]] std::uint32_t source(std::int64_t c) const noexcept { return steps_[static_cast<std::size_t>(c)].source; }
  [[nodiscard]] TokenId token(std::int64_t c) const noexcept { return steps_[static_cast<std::size_t>(c)].next.id; }
  [[nodiscard]] double logprob(std::int64_t c) const noexcept { return steps_[static_cast<std::size_t>(c)].next.logprob; }
  /// The proposed step has happened. Without a proposal: nothing. Each proposal is accepted once. Takes no memory.
  void accept() noexcept;

  /// The `n` best, or fewer if there are no more. Live ones count when the search was cut off (for `reason`), not when it is over.
  [[nodiscard]] std::vector<AnswerDraft*> best(std::int64_t n, FinishReason reason);

 private:
  /// A continuation among those of all hypotheses.
  struct Step {
    std::uint32_t source = 0;
    double score = 0;  ///< of the hypothesis with it
    Continuation next{};
  };

  static bool is_dead(const AnswerDraft& draft) noexcept { return draft.score == -std::numeric_limits<double>::infinity(); }
  [[nodiscard]] bool ends(TokenId id) const noexcept;
  [[nodiscard]] double final_score(const AnswerDraft& draft) const noexcept;
  [[nodiscard]] double best_possible(const AnswerDraft& draft) const noexcept;
  void rank_continuations(std::span<const RowResult> rows);
  /// The hypothesis with its new token; its text is pushed.
  void extend(const Step& step, std::span<const RowResult> rows, AnswerDraft& out) const;
  void fill_with_dead();
  [[nodiscard]] bool is_over();

  BeamConfig config_;
  std::vector<AnswerDraft> live_;      // [width]
  std::vector<AnswerDraft> next_;      // [width], proposed
  std::vector<Step> steps_;            // [width], how `next_` came to be
  std::vector<AnswerDraft> ended_;     // finished by the proposed step; [0, num_ended_) are in use
  std::vector<AnswerDraft> finished_;  // at most `width`, best first, and room for one more
  std::vector<Step> ranking_;          // scratch
  std::vector<double> scores_;         // scratch
  std::size_t num_next_ = 0;
  std::size_t num_ended_ = 0;
  bool started_ = false;
  bool proposed_ = false;
  bool proposes_end_ = false;
  bool over_ = false;
};

}  // namespace kvpage::engine
