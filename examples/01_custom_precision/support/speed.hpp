/// \file Speed of one kernel beside another one: interleaved rounds, so short that a busy machine disturbs few of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace own {

/// Medians over the rounds: seconds of one call of each, and how many times as fast the first one was in its round.
struct Comparison {
  double own_s, shipped_s, ratio;
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Calls both functions in turn, each for half a millisecond or once, in up to 201 rounds.
template <class Own, class Shipped>
Comparison compare(Own&& run_own, Shipped&& run_shipped) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  const auto seconds_per_call = [](auto& run) {
    const auto start = Clock::now();
    int calls = 0;
    Seconds passed{};
    for (; calls == 0 || passed.count() < 0.0005; ++calls) {
      run();
      passed = Clock::now() - start;
    }
    return passed.count() / calls;
  };
  const auto start = Clock::now();
  std::vector<double> own_s, shipped_s, ratios;
  for (int round = 0; round < 201 && (round < 5 || Seconds(Clock::now() - start).count() < 0.5); ++round) {
    own_s.push_back(seconds_per_call(run_own));
    shipped_s.push_back(seconds_per_call(run_shipped));
    ratios.push_back(shipped_s.back() / own_s.back());
  }
  return {median(own_s), median(shipped_s), median(ratios)};
}

}  // namespace own
