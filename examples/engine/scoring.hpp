/// \file Scoring: log-probabilities of given tokens, teacher-forced.
#pragma once

#include "engine/sequence_runner.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// What the model thinks of one given token.
struct TokenScore {
  TokenId id = 0;
  double logprob = 0;         ///< natural log
  TokenId argmax = 0;         ///< the likeliest token there; ties to the lowest id
  double argmax_logprob = 0;
};

/// What the model thinks of a prompt and its continuation.
struct Score {
  double prompt_nll = 0;  ///< sum over prompt tokens 2..n of -log p
  std::vector<TokenScore> continuation;
  std::vector<std::pair<TokenId, double>> first_top10;  ///< likeliest tokens after the prompt, best first
};

/// How a text is scored.
struct ScoreOptions {
  /// Without it prompt_nll is 0, and what the cache has of the prompt is not computed again: a logprob needs its position's logits.
  bool prompt_nll = true;
};

/// Scores `prompt` in the runner's steps and each token of `continuation` as a step of its own, on the paged cache.
/// The result does not depend on chunks or cached prefixes, bit for bit.
/// Requires: prompt is not empty; ids are below vocab_size. Errors: as SequenceRunner::append.
Expected<Score, RunError> score(SequenceRunner& runner, std::span<const TokenId> prompt, std::span<const TokenId> continuation,
                                const ScoreOptions& options = {});
/// The same with a runner of its own, in steps of `chunk_tokens`.
Expected<Score, RunError> score(LanguageModel& model, std::span<const TokenId> prompt, std::span<const TokenId> continuation,
                                std::int64_t chunk_tokens);

/// Mean negative log-probability of the second half of each window of `window_tokens` ids, as llama.cpp's perplexity
/// program defines it (with BOS in the place of a window's first token if the tokenizer adds one).
struct PerplexityResult {
  double nll_sum = 0;
  std::int64_t scored_tokens = 0;
  std::int64_t windows = 0;
};

/// `on_window(result so far, total windows)` is called after each window. Errors: as SequenceRunner::append.
Expected<PerplexityResult, RunError> perplexity(LanguageModel& model, std::span<const TokenId> ids, std::int64_t window_tokens,
                                                std::optional<TokenId> bos,
                                                const std::function<void(const PerplexityResult&, std::int64_t)>& on_window);

}  // namespace kvpage::engine
