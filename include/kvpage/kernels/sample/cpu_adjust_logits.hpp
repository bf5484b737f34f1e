/// \file First half of the sampler: mask, logit bias and penalties, and the check that the row is sane.
#pragma once

#include <kvpage/kernels/sample/args.hpp>
#include <kvpage/kernels/sample/cpu_scratch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Index of the first NaN or +infinity of `logits` [vocab_size], or `vocab_size`.
inline std::int64_t find_bad_logit(const float* logits, std::int64_t vocab_size) noexcept {
  constexpr std::int64_t kChunk = 1024;
  for (std::int64_t begin = 0; begin < vocab_size; begin += kChunk) {
    const std::int64_t end = std::min(vocab_size, begin + kChunk);
    bool all_good = true;
    for (std::int64_t i = begin; i < end; ++i) all_good &= logits[i] < kInfinity;  // false for NaN
    if (all_good) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if (!(logits[i] < kInfinity)) return i;
    }
  }
  return vocab_size;
}

inline void apply_mask(const SampleArgs& args, float* logits) noexcept {
  if (!args.allowed.empty()) {
    for (std::int64_t id = 0; id < args.vocab_size; ++id) {
      const std::uint32_t word = args.allowed[static_cast<std::size_t>(id / 32)];
      if ((word >> (id % 32) & 1u) == 0) logits[id] = -kInfinity;
    }
  }
  for (const TokenId id : args.banned) logits[id] = -kInfinity;
}

/// Repetition looks at prompt and output, presence and frequency at the output; each id is changed once.
inline void apply_penalties(const SampleArgs& args, float* logits, std::uint32_t* counts) noexcept {
  constexpr std::uint32_t kDone = 0x8000'0000u;
  const SamplingParams& params = args.params;
  for (const TokenId id : args.prompt_ids) counts[id] = 0;
  for (const TokenId id : args.output_ids) counts[id] = 0;
  for (const TokenId id : args.output_ids) ++counts[id];
  for (const auto ids : {args.prompt_ids, args.output_ids}) {
    for (const TokenId id : ids) {
      const std::uint32_t count = counts[id];
      counts[id] = kDone;
      float& x = logits[id];
      if (count == kDone || x == -kInfinity) continue;
      x = x > 0.0f ? x / params.repetition_penalty : x * params.repetition_penalty;
      if (count > 0) x -= std::fma(params.frequency_penalty, static_cast<float>(count), params.presence_penalty);
    }
  }
}

/// The most likely token; ties go to the lowest id. Independent lanes, so that a compiler need not keep one order of maxima.
inline Candidate find_max(const float* logits, std::int64_t vocab_size) noexcept {
  constexpr std::int64_t kLanes = 16;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, logits[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= vocab_size; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = std::max(lanes[lane], logits[i + lane]);
  }
  for (; i < vocab_size; ++i) lanes[0] = std::max(lanes[0], logits[i]);
  const float max = *std::max_element(lanes, lanes + kLanes);
  return {max, static_cast<TokenId>(std::find(logits, logits + vocab_size, max) - logits)};
}

/// Writes the changed logits to `scratch.logits` and returns the most likely token.
inline Expected<Candidate, SampleError> adjust_logits(const SampleArgs& args, const SampleScratch& scratch) noexcept {
  const auto bad_logit = [](std::int64_t id) {
    return Unexpected{SampleError{SampleError::Kind::kBadLogit, static_cast<TokenId>(id)}};
  };
  const std::int64_t vocab_size = args.vocab_size;
  if (const std::int64_t bad = find_bad_logit(args.logits, vocab_size); bad < vocab_size) return bad_logit(bad);
  std::copy_n(args.logits, vocab_size, scratch.logits);
  apply_mask(args, scratch.logits);
  for (const LogitBias& entry : args.params.logit_bias) scratch.logits[entry.id] += entry.bias;
  if (args.params.penalizes()) apply_penalties(args, scratch.logits, scratch.counts);
  if (args.params.penalizes() || !args.params.logit_bias.empty()) {  // a sum or product may be too large
    if (const std::int64_t bad = find_bad_logit(scratch.logits, vocab_size); bad < vocab_size) return bad_logit(bad);
  }
  const Candidate max = find_max(scratch.logits, vocab_size);
  if (max.logit == -kInfinity) return Unexpected{SampleError{SampleError::Kind::kNothingAllowed}};
  return max;
}
}  // namespace detail

KVPAGE_END_NAMESPACE
