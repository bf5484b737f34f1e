/// \file SimRandom: the numbers that a simulation draws.
#pragma once

#include <kvpage/base/philox.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Numbers of one simulation: the n-th number of a seed and purpose.
class SimRandom {
 public:
  explicit SimRandom(std::uint64_t seed, std::uint32_t purpose = 0) noexcept : seed_(seed), purpose_(purpose) {}
  [[nodiscard]] std::uint64_t next() noexcept {
    second_half_ = !second_half_;
    if (!second_half_) return std::uint64_t{block_.word[3]} << 32 | block_.word[2];
    block_ = philox4x32({{count_++, purpose_, 0, 0}}, seed_);
    return std::uint64_t{block_.word[1]} << 32 | block_.word[0];
  }
  /// Uniform in [low, high].
  [[nodiscard]] std::int64_t in(std::int64_t low, std::int64_t high) noexcept {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  [[nodiscard]] bool one_in(std::int64_t n) noexcept { return in(1, n) == 1; }

 private:
  std::uint64_t seed_;
  std::uint32_t count_ = 0;
  std::uint32_t purpose_;
  PhiloxBlock block_{};
  bool second_half_ = false;
};

KVPAGE_END_NAMESPACE
