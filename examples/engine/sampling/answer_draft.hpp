/// \file AnswerDraft: an answer that is being made, or a hypothesis of a beam.
#pragma once

#include "engine/sampling/answer_text.hpp"
#include "engine/step_output.hpp"

#include <kvpage/kernels/sample/log_probs.hpp>

#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// A token that was drawn, with what the row said about it.
struct DrawnToken {
  TokenId id = 0;
  bool ends = false;      ///< an end token or stop token: it counts as drawn, but is not in the answer
  double logprob = 0;     ///< by the raw logits
  double score = 0;       ///< what the answer's score grows by
};

/// Tokens, text and sums. Plain data; who appends also pushes to the text.
struct AnswerDraft {
  std::vector<TokenId> ids{};
  std::vector<TokenLogprobs> logprobs{};
  AnswerText text{};
  double sum_logprob = 0;        ///< of `ids`
  double score = 0;              ///< of everything drawn
  std::int64_t num_drawn = 0;
  FinishReason finish = FinishReason::kNone;

  /// `top`: the likeliest tokens of the row. `keep_logprobs`: somebody asked for them.
  void append(const DrawnToken& token, std::span<const TokenLogProb> top, bool keep_logprobs) {
    ++num_drawn;
    score += token.score;
    if (token.ends) return;
    ids.push_back(token.id);
    sum_logprob += token.logprob;
    if (!keep_logprobs) return;
    TokenLogprobs& entry = logprobs.emplace_back();
    entry.chosen = {token.id, static_cast<float>(token.logprob)};
    for (const TokenLogProb& likely : top) entry.top.push_back({likely.id, static_cast<float>(likely.log_prob)});
  }

  /// Mean log-probability of everything drawn: what best_of compares. An answer without any is the worst.
  [[nodiscard]] double mean_score() const noexcept {
    return num_drawn > 0 ? score / static_cast<double>(num_drawn) : -std::numeric_limits<double>::infinity();
  }

  /// What the client gets. The draft is used up.
  [[nodiscard]] Answer to_answer() {
    text.finish();
    Answer answer;
    answer.tail_text = text.take_new();
    answer.text = text.text();
    answer.ids = std::move(ids);
    answer.logprobs = std::move(logprobs);
    answer.sum_logprob = sum_logprob;
    answer.finish = finish;
    answer.num_drawn = num_drawn;
    return answer;
  }
};

}  // namespace kvpage::engine
