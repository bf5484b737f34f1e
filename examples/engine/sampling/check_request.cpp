/// \file check_request: one rule per field.
#include "engine/sampling/check_request.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace kvpage::engine {
namespace {

using Checked = Expected<void, Refusal>;
using Limits = SamplingLimits;

Unexpected<Refusal> refuse(const char* what, std::int64_t value, std::int64_t limit, const char* unit) noexcept {
  return {Refusal{.kind = RefusalKind::kBadParameter, .value = value, .limit = limit, .unit = unit, .what = what}};
}

/// A number for a refusal, which holds integers: rounded away from 0, so that what is outside of a limit still is. Not a number: 0.
std::int64_t outward(double value) noexcept {
  constexpr double kMost = 9e18;
  if (std::isnan(value)) return 0;
  return static_cast<std::int64_t>(std::clamp(value < 0 ? std::floor(value) : std::ceil(value), -kMost, kMost));
}

Checked check_ids(std::span<const TokenId> ids, std::int64_t vocab_size, const char* what) noexcept {
  for (const TokenId id : ids) {
    if (id >= vocab_size) return refuse(what, id, vocab_size, "token id");
  }
  return {};
}

Checked check_lengths(const GenerationRequest& request) noexcept {
  if (request.max_tokens < 1) return refuse("max_tokens must be at least 1", request.max_tokens, 1, "tokens");
  if (request.min_tokens < 0) return refuse("min_tokens must not be negative", request.min_tokens, 0, "tokens");
  if (request.min_tokens > request.max_tokens) {
    return refuse("min_tokens must be at most max_tokens", request.min_tokens, request.max_tokens, "tokens");
  }
  if (request.num_logprobs < -1 || request.num_logprobs > Limits::kTopLogprobs) {
    return refuse("num_logprobs must be in [-1, 20]", request.num_logprobs, Limits::kTopLogprobs, "tokens");
  }
  return {};
}

Checked check_answers(const GenerationRequest& request) noexcept {
  if (request.n < 1 || request.n > Limits::kAnswers) return refuse("n must be in [1, 128]", request.n, Limits::kAnswers, "answers");
  if (request.best_of != 0 && (request.best_of < request.n || request.best_of > Limits::kAnswers)) {
    const std::int64_t limit = request.best_of < request.n ? request.n : Limits::kAnswers;
    return refuse("best_of must be 0 or in [n, 128]", request.best_of, limit, "answers");
  }
  if (request.beam_width == 0) return {};
  if (request.beam_width < request.n || request.beam_width > Limits::kAnswers) {
    const std::int64_t limit = request.beam_width < request.n ? request.n : Limits::kAnswers;
    return refuse("beam_width must be 0 or in [n, 128]", request.beam_width, limit, "answers");
  }
  if (request.best_of != 0) return refuse("best_of is for sampling: with beam_width it must be 0", request.best_of, 0, "answers");
  if (!request.sampling.greedy()) {
    const auto temperature = static_cast<double>(request.sampling.temperature);
    return refuse("a beam draws nothing: with beam_width the temperature must be 0", outward(temperature), 0, "");
  }
  if (!(std::abs(request.length_penalty) <= static_cast<double>(Limits::kLengthPenalty))) {
    return refuse("length_penalty must be a number in [-16, 16]", outward(request.length_penalty), Limits::kLengthPenalty, "");
  }
  return {};
}

Checked check_stops(const GenerationRequest& request, std::int64_t vocab_size, bool has_tokenizer) noexcept {
  const auto num_tokens = static_cast<std::int64_t>(request.stop_tokens.size());
  if (num_tokens > Limits::kStopTokens) return refuse("stop_tokens holds too many", num_tokens, Limits::kStopTokens, "tokens");
  const auto num_strings = static_cast<std::int64_t>(request.stop_strings.size());
  if (num_strings > Limits::kStopStrings) return refuse("stop_strings holds too many", num_strings, Limits::kStopStrings, "strings");
  if (num_strings > 0 && !has_tokenizer) return refuse("stop_strings need a tokenizer: this engine has none", num_strings, 0, "strings");
  for (const std::string& stop : request.stop_strings) {
    const auto bytes = static_cast<std::int64_t>(stop.size());
    if (bytes == 0) return refuse("stop_strings must not hold an empty one", 0, 1, "bytes");
    if (bytes > Limits::kStopStringBytes) {
      return refuse("stop_strings holds one that is too long", bytes, Limits::kStopStringBytes, "bytes");
    }
  }
  return check_ids(request.stop_tokens, vocab_size, "stop_tokens holds an id outside of the vocabulary");
}

Checked check_sampling(const GenerationRequest& request, std::int64_t vocab_size) noexcept {
  SamplingParams params = request.sampling;
  params.logit_bias = request.logit_bias;
  const auto num_biases = static_cast<std::int64_t>(request.logit_bias.size());
  if (num_biases > Limits::kLogitBiases) return refuse("logit_bias holds too many", num_biases, Limits::kLogitBiases, "tokens");
  for (const LogitBias& bias : request.logit_bias) {
    const auto value = static_cast<double>(bias.bias);
    if (!(std::abs(value) <= static_cast<double>(Limits::kBias))) {
      return refuse("logit_bias holds a bias outside of [-100, 100]", outward(value), Limits::kBias, "");
    }
  }
  const Status status = validate(params, vocab_size);
  if (!status.ok()) return refuse(status.message(), status.value(), status.limit(), "");
  return {};
}

}  // namespace

Expected<void, Refusal> check_request(const GenerationRequest& request, std::int64_t vocab_size, bool has_tokenizer) noexcept {
  if (request.prompt_ids.empty()) return Unexpected{Refusal{.kind = RefusalKind::kEmptyPrompt, .limit = 1, .unit = "tokens"}};
  if (const Checked checked = check_lengths(request); !checked) return checked;
  if (const Checked checked = check_answers(request); !checked) return checked;
  if (const Checked checked = check_sampling(request, vocab_size); !checked) return checked;
  if (const Checked checked = check_stops(request, vocab_size, has_tokenizer); !checked) return checked;
  return check_ids(request.prompt_ids, vocab_size, "prompt_ids holds an id outside of the vocabulary");
}

}  // namespace kvpage::engine
