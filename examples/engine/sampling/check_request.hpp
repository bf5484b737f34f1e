/// \file check_request: whether a request can be sampled, judged before anything is allocated for it.
#pragma once

#include "engine/sampling/generation_request.hpp"

#include <kvpage/base/expected.hpp>

#include <cstdint>

namespace kvpage::engine {

/// The most of each that one request may ask for.
struct SamplingLimits {
  static constexpr std::int64_t kAnswers = 128;          ///< n, best_of, beam_width
  static constexpr std::int64_t kTopLogprobs = 20;
  static constexpr std::int64_t kLogitBiases = 16'384;
  static constexpr std::int64_t kStopTokens = 256;
  static constexpr std::int64_t kStopStrings = 64;
  static constexpr std::int64_t kStopStringBytes = 1'024;
  static constexpr std::int64_t kBias = 100;             ///< of a logit, either way
  static constexpr std::int64_t kLengthPenalty = 16;     ///< either way
  // What flags and request files allow; the sampler itself takes any finite number.
  static constexpr double kTemperature = 100;
  static constexpr double kPenalty = 100;                ///< of presence and frequency either way, and of repetition
  static constexpr double kLeastRepetitionPenalty = 0.01;
};

/// Errors: kEmptyPrompt, or kBadParameter whose `what` names the field and its rule. Cost: O(size of the request).
[[nodiscard]] Expected<void, Refusal> check_request(const GenerationRequest& request, std::int64_t vocab_size, bool has_tokenizer) noexcept;

}  // namespace kvpage::engine
