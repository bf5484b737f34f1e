/// \file Seeded random floats and bitwise comparison for kernel tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace kvpage_test {

/// `count` floats uniform in [lo, hi), the same for a seed on every machine.
inline std::vector<float> random_floats(std::int64_t count, std::uint32_t seed, float lo = -1.0f, float hi = 1.0f) {
  std::mt19937 rng(seed);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& x : out) x = lo + (hi - lo) * static_cast<float>(rng() >> 8) * 0x1p-24f;
  return out;
}

/// True when both hold the same bits.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace kvpage_test
