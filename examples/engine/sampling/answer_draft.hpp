/// \file AnswerDraft: an answer that is being made, or a hypothesis of a beam.
#pragma once

#include "engine/sampling/answer_text.hpp"
#include "engine/sampling/step_output.hpp"

#include <kvpage/kernels/sample/cpu_log_probs.hpp>

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

/// What a client gets of a token's log-probabilities. `top`: the likeliest tokens of the row.
inline void set_logprobs(TokenLogprobs& entry, const DrawnToken& token, std::span<const TokenLogProb> top) {
  entry.chosen = {token.id, static_cast<float>(token.logprob)};
  entry.top.clear();
  entry.top.reserve(top.size());
  for (const TokenLogProb& likely : top) entry.top.push_back({likely.id, static_cast<float>(likely.log_prob)});
}

/// Tokens, text and sums. Plain data; who appends also pushes to the text.
struct AnswerDraft {
  std::vector<TokenId> ids{};
  std::vector<TokenLogprobs> logprobs{};
  AnswerText text{};
  double sum_logprob = 0;        ///< of `ids`
  double score = 0;              ///< of everything drawn
  std::int64_t num_drawn = 0;
  FinishReason finish = FinishReason::kNone;

  /// `top`: the likeliest tokens of the row. `keep_logprobs`: somebody asked for them. All or nothing.
  void append(const DrawnToken& token, std::span<const TokenLogProb> top, bool keep_logprobs) {
    if (!token.ends) {
      TokenLogprobs entry;
      if (keep_logprobs) set_logprobs(entry, token, top);
      make_room(ids);
      if (keep_logprobs) make_room(logprobs), logprobs.push_back(std::move(entry));
      ids.push_back(token.id);
      sum_logprob += token.logprob;
    }
    ++num_drawn;
    score += token.score;
  }

  /// Mean log-probability of everything drawn: what best_of compares. An answer without any is the worst.
  [[nodiscard]] double mean_score() const noexcept {
    return num_drawn > 0 ? score / static_cast<double>(num_drawn) : -std::numeric_limits<double>::infinity();
  }

  /// What the client gets, first what takes memory: it may be called again.
  void copy_text(Answer& answer) {
    text.finish();
    answer.tail_text = text.new_text();
    answer.text = text.text();
  }
  /// The rest. The draft is used up.
  void move_rest(Answer& answer) noexcept {
    answer.ids = std::move(ids);
    answer.logprobs = std::move(logprobs);
    answer.sum_logprob = sum_logprob;
    answer.finish = finish;
    answer.num_drawn = num_drawn;
  }

 private:
  template <class List>
  static void make_room(List& list) {
    if (list.size() == list.capacity()) list.reserve(2 * list.size() + 1);
  }
};

}  // namespace kvpage::engine
