/// \file GenerationRequest: what a client wants from the engine, as plain data.
#pragma once

#include <kvpage/kernels/sample/args.hpp>
#include <kvpage/sched/request.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvpage::engine {

/// A prompt and how to continue it. The text that it gets depends on nothing else: not on other requests, nor on when it came.
struct GenerationRequest {
  std::string name{};                 ///< for reports and traces; need not be unique
  std::vector<TokenId> prompt_ids{};  ///< at least one
  std::int64_t max_tokens = 16;
  std::int64_t min_tokens = 0;        ///< no end token, stop token or stop string ends the answer before it has so many

  SamplingParams sampling{};          ///< its `seed` and `logit_bias` are not read: see the two fields below
  bool temperature_last = false;      ///< filters see probabilities at temperature 1
  std::vector<LogitBias> logit_bias{};
  std::optional<std::uint64_t> seed{};  ///< drawn when missing, and reported
  std::int64_t n = 1;                 ///< answers that are given back
  std::int64_t best_of = 0;           ///< answers that are computed, the n of the highest mean log-probability are kept; 0 = n
  std::int64_t beam_width = 0;        ///< > 0: beam search of this width, the n best hypotheses are kept; 0 = sampling
  double length_penalty = 1;          ///< of beams: a hypothesis scores log-probability / tokens^length_penalty
  std::int64_t num_logprobs = -1;     ///< -1 = none; 0 = of each token; k = also of the k likeliest at its place

  std::vector<TokenId> stop_tokens{};     ///< not in the answer
  std::vector<std::string> stop_strings{};  ///< the text ends before the first one
  bool ignore_eos = false;            ///< the model's end tokens are tokens like any other

  std::int64_t priority = 0;          ///< 0 = most urgent
  std::uint32_t tenant = 0;
  std::int64_t start_by_ns = 0;       ///< on the engine's clock; 0 = none
  std::int64_t finish_by_ns = 0;

  /// Answers that are computed.
  [[nodiscard]] std::int64_t num_candidates() const noexcept {
    if (beam_width > 0) return beam_width;
    return best_of > 0 ? best_of : n;
  }
  /// Which of its answers are the n best is known at the end only: nothing is streamed.
  [[nodiscard]] bool streams() const noexcept { return beam_width <= 0 && num_candidates() == n; }
};

}  // namespace kvpage::engine
