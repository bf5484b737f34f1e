/// \file StepOutput: what one step of the engine gave to its clients.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/sched/request.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// A token at some place, and the logarithm of its probability by the raw logits.
struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

/// What GenerationRequest::num_logprobs asks for.
struct TokenLogprobs {
  TokenLogprob chosen{};
  std::vector<TokenLogprob> top{};  ///< the likeliest first
};

/// A new token of an answer that streams. Every token is given but those that end an answer: end tokens and stop tokens.
struct TokenOutput {
  RequestId request{};
  std::uint32_t answer = 0;
  TokenId token = 0;
  std::string text{};  ///< what may be shown now: whole characters, nothing that may still become a stop string
  std::vector<TokenLogprobs> logprobs{};  ///< of this token; empty unless asked for
};

/// One finished answer.
struct Answer {
  std::vector<TokenId> ids{};       ///< without the end or stop token
  std::string text{};               ///< up to the stop string
  std::vector<TokenLogprobs> logprobs{};  ///< per token of `ids`; empty unless asked for
  double sum_logprob = 0;           ///< of all tokens of `ids`, by the raw logits; 0 unless something asked for it
  FinishReason finish = FinishReason::kNone;
  std::string tail_text{};          ///< the end of `text` that no TokenOutput had: what was held back
  std::int64_t num_drawn = 0;       ///< tokens of `ids`, and the end or stop token if one was drawn
};

/// What a request took. Times are on the engine's clock.
struct RequestMetrics {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;       ///< up to the first token: found in the prefix cache or its host tier, over all admissions
  std::int64_t positions_computed = 0;  ///< rows of all its answers, recomputed ones included
  std::int64_t recomputed_tokens = 0;
  std::int64_t preempted_keep = 0;
  std::int64_t preempted_demote = 0;
  std::int64_t preempted_recompute = 0;
  std::int64_t arrival_ns = 0;
  std::int64_t first_token_ns = 0;      ///< 0 = none came
  std::int64_t finished_ns = 0;
};

/// A finished request.
struct GenerationResult {
  RequestId request{};
  std::string name{};
  std::uint64_t seed = 0;
  std::vector<Answer> answers{};    ///< n, best first if there was a choice
  RequestMetrics metrics{};
};

/// What one step did. An engine has one, and keeps its memory from step to step.
struct StepOutput {
  bool idle = false;                  ///< nothing was there to do
  Status status{};                    ///< not ok: the step failed, and will be tried again; kOutOfMemory = there was no memory for it
  bool gave_up = false;               ///< it has failed too often in a row, see Engine::step
  std::int64_t num_tokens = 0;        ///< rows
  std::int64_t num_seqs = 0;
  std::int64_t duration_ns = 0;
  std::vector<TokenOutput> tokens{};  ///< in the order of the plan
  std::vector<GenerationResult> finished{};

  /// A token behind the others, its text and log-probabilities empty, with the memory of one of an earlier step.
  TokenOutput& add_token() {
    if (spare_.empty()) {
      if (spare_.capacity() <= tokens.size()) spare_.reserve(2 * tokens.size() + 8);  // clear() finds room for all of them
      return tokens.emplace_back();
    }
    tokens.push_back(std::move(spare_.back()));
    spare_.pop_back();
    return tokens.back();
  }

  /// Empty again, for another step.
  void clear() {
    for (TokenOutput& token : tokens) {
      token.text.clear();
      spare_.push_back(std::move(token));
    }
    tokens.clear(), finished.clear();
    idle = gave_up = false;
    status = {};
    num_tokens = num_seqs = duration_ns = 0;
  }

 private:
  std::vector<TokenOutput> spare_{};  ///< of earlier steps
};

}  // namespace kvpage::engine
