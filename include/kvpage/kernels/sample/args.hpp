/// \file The arguments of sampling: parameters, one row of logits with its context, and why a row can fail.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/base/expected.hpp>
#include <kvpage/base/types.hpp>
#include <kvpage/kernels/sample/weights.hpp>
#include <kvpage/precision/element.hpp>

#include <span>
#include <type_traits>

KVPAGE_BEGIN_NAMESPACE

/// Added to the logit of one token, before penalties and temperature.
struct LogitBias {
  TokenId id;
  float bias;
};

/// Below this temperature the largest logit is taken: dividing by it would only overflow.
inline constexpr float kGreedyTemperature = 1e-6f;

/// How a request wants its tokens chosen. The defaults sample from the model's own distribution.
///
/// The order is: mask, logit bias, penalties, temperature, min-p, top-k, top-p, draw (see FilterOrder for temperature last).
/// Each filter sees what the ones before it left; ties go to the lowest id; the most likely token survives every filter.
struct SamplingParams {
  float temperature = 1.0f;            ///< 0 (below 1e-6) = greedy
  float min_p = 0.0f;                  ///< keeps tokens at least this fraction of the most likely one; 0 = off
  std::int64_t top_k = 0;              ///< keeps the k most likely; 0, -1 or >= vocab_size = off
  float top_p = 1.0f;                  ///< keeps the smallest set of most likely tokens of at least this mass; 1 = off
  float repetition_penalty = 1.0f;     ///< divides (positive) or multiplies (negative) the logit of each id of prompt and output, once
  float presence_penalty = 0.0f;       ///< subtracted once for each id of the output
  float frequency_penalty = 0.0f;      ///< subtracted per occurrence in the output
  std::uint64_t seed = 0;
  std::span<const LogitBias> logit_bias{};  // [num_biases]; an id may occur again, the biases add up

  [[nodiscard]] bool greedy() const noexcept { return temperature < kGreedyTemperature; }
  [[nodiscard]] bool penalizes() const noexcept {
    return repetition_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
  [[nodiscard]] bool limits_k(std::int64_t vocab_size) const noexcept { return top_k > 0 && top_k < vocab_size; }
};

/// One row to sample: logits, and everything the choice may depend on. It never depends on other rows.
template <Element Logit>
struct BasicSampleArgs {
  const Stored<Logit>* logits = nullptr;      // [vocab_size]; pad columns behind it are never read
  std::int64_t vocab_size = 0;                ///< at most kMaxVocabSize
  SamplingParams params{};
  std::span<const TokenId> prompt_ids{};      // [num_prompt_tokens], read only by the repetition penalty
  std::span<const TokenId> output_ids{};      // [num_output_tokens], read only by penalties
  std::span<const std::uint32_t> allowed{};   // [ceil(vocab_size / 32)] bit id % 32 of word id / 32; empty = all allowed
  std::span<const TokenId> banned{};          // [num_banned], on top of `allowed`
  std::uint32_t position = 0;                 ///< of the token to be drawn, counted from the start of the prompt
  std::uint32_t child = 0;                    ///< which of the n answers of one request
};
using SampleArgs = BasicSampleArgs<float>;

/// Why a row has no next token. It ends that row's request only.
struct SampleError {
  enum class Kind : std::uint8_t {
    kBadLogit,        ///< a logit is NaN or +infinity (or became so through bias or penalties); `id` is the first
    kNothingAllowed,  ///< mask and bans leave no token with a finite logit
    kBadArguments,    ///< `validate` refuses the arguments (it says why), or the scratch memory is too small
  };
  Kind kind;
  TokenId id = 0;

  friend constexpr bool operator==(const SampleError&, const SampleError&) = default;
};

using DrawResult = Expected<TokenId, SampleError>;

/// Filters see probabilities at the requested temperature (the default order).
struct TemperatureFirst {
  static constexpr bool kFilterAtTemperature = true;
};
/// Filters see probabilities at temperature 1; the temperature only shapes the draw among the survivors.
struct TemperatureLast {
  static constexpr bool kFilterAtTemperature = false;
};

/// The two orders of the chain.
template <class T>
concept FilterOrder = std::is_same_v<T, TemperatureFirst> || std::is_same_v<T, TemperatureLast>;

/// Whether `params` can be used with this vocabulary; the message names the field and its rule.
[[nodiscard]] inline Status validate(const SamplingParams& params, std::int64_t vocab_size) noexcept {
  constexpr auto kBad = StatusCode::kInvalidArgument;
  const auto between = [](float value, float low, float high) { return value >= low && value <= high; };  // false for NaN
  constexpr float kMax = 0x1.fffffep127f;
  if (vocab_size < 1 || vocab_size > kMaxVocabSize) {
    return {kBad, "vocab_size must lie in [1, 524288]", vocab_size, kMaxVocabSize};
  }
  if (!between(params.temperature, 0.0f, kMax)) return {kBad, "temperature must be a finite number >= 0"};
  if (!between(params.min_p, 0.0f, 1.0f)) return {kBad, "min_p must lie in [0, 1]"};
  if (params.top_k < -1) return {kBad, "top_k must be a count, or 0 or -1 for off", params.top_k, -1};
  if (!between(params.top_p, 0.0f, 1.0f)) return {kBad, "top_p must lie in [0, 1]"};
  if (!(params.repetition_penalty > 0.0f && params.repetition_penalty <= kMax)) {
    return {kBad, "repetition_penalty must be a finite number > 0"};
  }
  if (!between(params.presence_penalty, -kMax, kMax)) return {kBad, "presence_penalty must be finite"};
  if (!between(params.frequency_penalty, -kMax, kMax)) return {kBad, "frequency_penalty must be finite"};
  for (const LogitBias& entry : params.logit_bias) {
    if (entry.id >= vocab_size) return {kBad, "logit_bias holds an id outside the vocabulary", entry.id, vocab_size};
    if (!between(entry.bias, -kMax, kMax)) return {kBad, "logit_bias values must be finite", entry.id, vocab_size};
  }
  return {};
}

/// Whether the row is well formed: parameters, mask size, every id. Cost: O(number of ids).
template <Element Logit>
[[nodiscard]] Status validate(const BasicSampleArgs<Logit>& args) noexcept {
  constexpr auto kBad = StatusCode::kInvalidArgument;
  if (const Status status = validate(args.params, args.vocab_size); !status.ok()) return status;
  if (args.logits == nullptr) return {kBad, "logits must not be null"};
  const std::int64_t mask_words = ceil_div(args.vocab_size, 32);
  const auto given_words = static_cast<std::int64_t>(args.allowed.size());
  if (given_words != 0 && given_words < mask_words) return {kBad, "the allowed mask is too short", given_words, mask_words};
  for (const auto ids : {args.prompt_ids, args.output_ids, args.banned}) {
    for (const TokenId id : ids) {
      if (id >= args.vocab_size) return {kBad, "a prompt, output or banned id lies outside the vocabulary", id, args.vocab_size};
    }
  }
  return {};
}

KVPAGE_END_NAMESPACE
