/// \file The sampler, obviously: every filter on a fully sorted list of candidates.
#pragma once

#include <kvpage/base/philox.hpp>
#include <kvpage/kernels/sample/args.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

KVPAGE_BEGIN_NAMESPACE

namespace reference {

/// Logits after mask, bias and penalties [vocab_size].
template <Element Logit>
std::vector<float> adjusted_logits(const BasicSampleArgs<Logit>& args) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<float> logits;
  for (std::int64_t id = 0; id < args.vocab_size; ++id) logits.push_back(ElementCodec<Logit>::decode(args.logits[id]));
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (!args.allowed.empty() && (args.allowed[id / 32] >> (id % 32) & 1u) == 0) logits[id] = kNever;
  }
  for (const TokenId id : args.banned) logits[id] = kNever;
  for (const LogitBias& entry : args.params.logit_bias) logits[entry.id] += entry.bias;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const auto in_prompt = std::count(args.prompt_ids.begin(), args.prompt_ids.end(), id);
    const auto in_output = std::count(args.output_ids.begin(), args.output_ids.end(), id);
    float& x = logits[id];
    if (in_prompt + in_output == 0 || x == kNever) continue;
    x = x > 0.0f ? x / args.params.repetition_penalty : x * args.params.repetition_penalty;
    if (in_output > 0) {
      x -= std::fma(args.params.frequency_penalty, static_cast<float>(in_output), args.params.presence_penalty);
    }
  }
  return logits;
}

/// One token of the sorted list.
struct Choice {
  TokenId id;
  float logit;
  std::uint64_t weight;
};

inline std::uint64_t total_weight(const std::vector<Choice>& choices) {
  std::uint64_t sum = 0;
  for (const Choice& choice : choices) sum += choice.weight;
  return sum;
}

/// Cuts the sorted list by min-p, top-k and top-p, in this order.
inline void filter(std::vector<Choice>& choices, const SamplingParams& params) {
  const auto best = static_cast<double>(choices.front().weight);
  std::erase_if(choices, [&](const Choice& c) { return static_cast<double>(c.weight) < static_cast<double>(params.min_p) * best; });
  if (params.top_k > 0 && params.top_k < static_cast<std::int64_t>(choices.size())) {
    choices.resize(static_cast<std::size_t>(params.top_k));
  }
  if (params.top_p >= 1.0f) return;
  const double wanted = static_cast<double>(params.top_p) * static_cast<double>(total_weight(choices));
  std::uint64_t sum = 0;
  std::size_t kept = 0;
  do {
    sum += choices[kept++].weight;
  } while (kept < choices.size() && static_cast<double>(sum) < wanted);
  choices.resize(kept);
}

/// What `sample_row` must return, for well-formed arguments. Allocates.
template <FilterOrder Order = TemperatureFirst, Element Logit = float>
DrawResult sample_row(const BasicSampleArgs<Logit>& args) {
  if (!validate(args).ok()) return Unexpected{SampleError{SampleError::Kind::kBadArguments}};
  const auto is_bad = [](float x) { return !(x < std::numeric_limits<float>::infinity()); };
  const auto bad_logit = [](auto id) { return Unexpected{SampleError{SampleError::Kind::kBadLogit, static_cast<TokenId>(id)}}; };
  for (std::int64_t id = 0; id < args.vocab_size; ++id) {
    if (is_bad(ElementCodec<Logit>::decode(args.logits[id]))) return bad_logit(id);
  }
  const auto logits = adjusted_logits(args);
  std::vector<Choice> choices;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (is_bad(logits[id])) return bad_logit(id);
    if (std::isfinite(logits[id])) choices.push_back({static_cast<TokenId>(id), logits[id], 0});
  }
  if (choices.empty()) return Unexpected{SampleError{SampleError::Kind::kNothingAllowed}};
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.logit > b.logit; });
  if (args.params.greedy()) return choices.front().id;
  const float max = choices.front().logit;
  const auto weigh = [&](float temperature) {
    for (Choice& choice : choices) choice.weight = logit_weight(choice.logit, max, temperature);
  };
  weigh(Order::kFilterAtTemperature ? args.params.temperature : 1.0f);
  filter(choices, args.params);
  weigh(args.params.temperature);
  std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.id < b.id; });
  const DrawKey key{.seed = args.params.seed, .position = args.position, .child = args.child};
  std::uint64_t remaining = multiply_high(draw_bits(key), total_weight(choices));
  std::size_t i = 0;
  while (remaining >= choices[i].weight) remaining -= choices[i++].weight;
  return choices[i].id;
}

}  // namespace reference

KVPAGE_END_NAMESPACE
