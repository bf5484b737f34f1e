/// \file Second half of the sampler: weights, and the filters min-p, top-k and top-p without a full sort.
#pragma once

#include <kvpage/kernels/sample/args.hpp>
#include <kvpage/kernels/sample/cpu_scratch.hpp>

#include <algorithm>
#include <bit>
#include <numeric>

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

/// Weights of one octave differ by less than a factor of 2; along MoreLikely octaves never rise. Sums per octave tell
/// which one a cut falls into, so that only its members need selecting.
inline constexpr int kTopOctave = static_cast<int>(std::bit_width(kUnitWeight));

inline int octave(const SampleScratch& scratch, const Candidate& candidate) noexcept {
  return static_cast<int>(std::bit_width(scratch.weights[candidate.id]));
}

/// Removes the candidates for which `unwanted` holds from the first `count`; returns how many stay.
template <class Predicate>
std::int64_t remove_candidates(const SampleScratch& scratch, std::int64_t count, Predicate unwanted) noexcept {
  return std::remove_if(scratch.candidates, scratch.candidates + count, unwanted) - scratch.candidates;
}

/// Moves the `k` most likely of `count` > k candidates to the front; the others are lost.
inline void take_top_k(const SampleScratch& scratch, std::int64_t count, std::int64_t k) noexcept {
  std::int64_t counts[kTopOctave + 1] = {};
  for (std::int64_t i = 0; i < count; ++i) ++counts[octave(scratch, scratch.candidates[i])];
  int cut = kTopOctave;
  for (std::int64_t above = counts[cut]; above < k; above += counts[cut]) --cut;
  count = remove_candidates(scratch, count, [&](const Candidate& c) { return octave(scratch, c) < cut; });
  std::nth_element(scratch.candidates, scratch.candidates + k, scratch.candidates + count, MoreLikely{});
}

/// Finds the fewest most likely of `count` candidates whose mass is at least `top_p` of all. Moves those of the octave of the
/// cut to the front and returns how many they are; the others are lost. Cost: O(count) on average.
inline std::int64_t take_top_mass(const SampleScratch& scratch, std::int64_t count, float top_p) noexcept {
  const auto weight = [&](std::int64_t i) { return scratch.weights[scratch.candidates[i].id]; };
  std::uint64_t masses[kTopOctave + 1] = {};
  for (std::int64_t i = 0; i < count; ++i) masses[octave(scratch, scratch.candidates[i])] += weight(i);
  const std::uint64_t total = std::accumulate(std::begin(masses), std::end(masses), std::uint64_t{0});
  const double wanted = static_cast<double>(top_p) * static_cast<double>(total);
  const auto enough = [&](std::uint64_t mass) { return static_cast<double>(mass) >= wanted; };
  int cut = kTopOctave;
  std::uint64_t low_mass = 0;
  while (!enough(low_mass + masses[cut])) low_mass += masses[cut--];
  std::int64_t high = remove_candidates(scratch, count, [&](const Candidate& c) { return octave(scratch, c) != cut; });
  std::int64_t low = 0;  // the first `low` are known to be too few, the first `high` to be enough
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    std::nth_element(scratch.candidates + low, scratch.candidates + middle, scratch.candidates + high, MoreLikely{});
    std::uint64_t middle_mass = low_mass;
    for (std::int64_t i = low; i < middle; ++i) middle_mass += weight(i);
    if (enough(middle_mass)) {
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
    take_top_k(scratch, count, params.top_k);
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
