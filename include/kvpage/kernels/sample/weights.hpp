/// \file Integer sampling weights: the probabilities of a row as whole numbers, whose sums do not depend on order.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// Weight of the largest logit of a row.
inline constexpr std::uint64_t kUnitWeight = std::uint64_t{1} << 44;

/// Largest vocabulary: 2^19 weights of at most 2^44 sum below 2^64.
inline constexpr std::int64_t kMaxVocabSize = std::int64_t{1} << 19;

/// floor(2^exponent * 2^44), non-decreasing in `exponent`, relative error below 2^-30 before the floor.
/// Integer arithmetic only: the same bits on every host and device, whatever the compiler fuses.
/// Requires: exponent <= 0 or NaN; below -45 (and for NaN) the weight is 0.
KVPAGE_HD constexpr std::uint64_t exp2_weight(float exponent) noexcept {
  // (2^f - 1)/f on [0, 1), degree 6, in units of 2^-32: interpolated at the Chebyshev nodes. All coefficients are positive,
  // so truncating Horner steps keep it monotone; their sum is below 1, so it stays monotone from octave to octave.
  constexpr std::uint64_t kCoefficients[7] = {2977044473, 1031764902, 238389752, 41301092, 5750554, 627479, 89043};
  if (!(exponent >= -45.0f)) return 0;
  const auto fixed = static_cast<std::int64_t>(exponent * 0x1p32f);
  const std::uint64_t fraction = static_cast<std::uint64_t>(fixed) & 0xFFFF'FFFFu;
  const auto octaves = static_cast<int>(-(fixed >> 32));
  std::uint64_t slope = kCoefficients[6];
  for (int i = 5; i >= 0; --i) slope = kCoefficients[i] + (fraction * slope >> 32);
  const std::uint64_t mantissa = (std::uint64_t{1} << 32) + (fraction * slope >> 32);
  return (mantissa << 12) >> octaves;
}

/// Weight of logit `x` in a row whose largest is `max`, at `temperature` > 0. No fused operation is possible here.
KVPAGE_HD constexpr std::uint64_t logit_weight(float x, float max, float temperature) noexcept {
  constexpr float kLog2E = 1.44269504f;
  return exp2_weight((x - max) / temperature * kLog2E);
}

/// The upper 64 bits of a * b.
KVPAGE_HD constexpr std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t a_low = a & 0xFFFF'FFFFu, a_high = a >> 32;
  const std::uint64_t b_low = b & 0xFFFF'FFFFu, b_high = b >> 32;
  const std::uint64_t cross = a_high * b_low + (a_low * b_low >> 32);
  return a_high * b_high + (cross >> 32) + ((a_low * b_high + (cross & 0xFFFF'FFFFu)) >> 32);
}

/// The id on which `random_bits` falls when the ids [0, vocab_size) have these weights; 0 < total = their sum.
/// P(id) = weights[id] / total within 2^-64 * total.
KVPAGE_HD constexpr std::uint32_t draw_weighted(const std::uint64_t* weights, std::int64_t vocab_size, std::uint64_t total,
                                                std::uint64_t random_bits) noexcept {
  std::uint64_t remaining = multiply_high(random_bits, total);
  std::int64_t id = 0;
  while (id + 1 < vocab_size && remaining >= weights[id]) remaining -= weights[id++];
  return static_cast<std::uint32_t>(id);
}

KVPAGE_END_NAMESPACE
