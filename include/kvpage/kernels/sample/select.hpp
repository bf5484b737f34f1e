/// \file Second half of the sampler: weights, and the filters min-p, top-k and top-p without a full sort.
#pragma once

#include <kvpage/kernels/sample/args.hpp>
#include <kvpage/kernels/sample/scratch.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// Candidates that pass min-p, in id order; returns how many. Tokens that the mask took away never pass.
inline std::int64_t collect_candidates(const SampleScratch& scratch, std::int64_t vocab_size, float min_p) noexcept {
  const double least = static_cast<double>(min_p) * static_cast<double>(kUnitWeight);
  std::int64_t count = 0;
  for (std::int64_t id = 0; id < vocab_size; ++id) {
    const float logit = scratch.logits[id];
    if (!(logit >= -0x1.fffffep127f) || static_cast<double>(scratch.weights[id]) < least) continue;
    scratch.candidates[count++] = {logit, static_cast<TokenId>(id)};
  }
  return count;
}

/// Moves the fewest most likely of `count` candidates whose mass is at least `top_p` of all to the front; returns how many.
/// Weighted quickselect by halves. Cost: O(count) on average.
inline std::int64_t take_top_mass(const SampleScratch& scratch, std::int64_t count, float top_p) noexcept {
  const auto mass = [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += scratch.weights[scratch.candidates[i].id];
    return sum;
  };
  const double wanted = static_cast<double>(top_p) * static_cast<double>(mass(0, count));
  std::int64_t low = 0;  // the first `low` are known to be too few, the first `high` to be enough
  std::int64_t high = count;
  std::uint64_t low_mass = 0;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    std::nth_element(scratch.candidates + low, scratch.candidates + middle, scratch.candidates + high, MoreLikely{});
    const std::uint64_t middle_mass = low_mass + mass(low, middle);
    if (static_cast<double>(middle_mass) >= wanted) {
      high = middle;
    } else {
      low = middle;
      low_mass = middle_mass;
    }
  }
  return high;
}

/// The least likely token that survives min-p, top-k and top-p. Weights do not grow along MoreLikely, so every filter
/// keeps a prefix of that order, and one token describes what is left.
inline Candidate find_cut(const SampleScratch& scratch, const SamplingParams& params, std::int64_t vocab_size) noexcept {
  std::int64_t count = collect_candidates(scratch, vocab_size, params.min_p);
  if (params.top_k > 0 && params.top_k < count) {
    std::nth_element(scratch.candidates, scratch.candidates + params.top_k, scratch.candidates + count, MoreLikely{});
    count = params.top_k;
  }
  if (params.top_p < 1.0f) count = take_top_mass(scratch, count, params.top_p);
  return *std::max_element(scratch.candidates, scratch.candidates + count, MoreLikely{});
}

/// Fills `scratch.weights` with the weights of the final law and returns their sum. `max` is the largest adjusted logit.
template <FilterOrder Order>
std::uint64_t final_weights(const SampleArgs& args, const SampleScratch& scratch, float max) noexcept {
  const SamplingParams& params = args.params;
  const std::int64_t vocab_size = args.vocab_size;
  const auto fill = [&](float temperature) {
    for (std::int64_t id = 0; id < vocab_size; ++id) scratch.weights[id] = logit_weight(scratch.logits[id], max, temperature);
  };
  if (params.min_p > 0.0f || params.limits_k(vocab_size) || params.top_p < 1.0f) {
    fill(Order::kFilterAtTemperature ? params.temperature : 1.0f);
    const Candidate cut = find_cut(scratch, params, vocab_size);
    if constexpr (!Order::kFilterAtTemperature) fill(params.temperature);
    for (std::int64_t id = 0; id < vocab_size; ++id) {
      if (MoreLikely{}(cut, {scratch.logits[id], static_cast<TokenId>(id)})) scratch.weights[id] = 0;
    }
  } else {
    fill(params.temperature);
  }
  std::uint64_t total = 0;
  for (std::int64_t id = 0; id < vocab_size; ++id) total += scratch.weights[id];
  return total;
}
}  // namespace detail

KVPAGE_END_NAMESPACE
