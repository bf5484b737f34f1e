/// \file chi_square_sigmas: how far counts are from a law.
#pragma once

#include "support/catch.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace kvpage_test {

/// (chi-square - degrees of freedom) / standard deviation of `counts`; a draw outside the law gives infinity.
/// Requires: at least 20 draws are expected in each cell that can be drawn.
inline double chi_square_sigmas(const std::vector<int>& counts, const std::vector<double>& law, int draws) {
  double chi_square = 0.0;
  int cells = 0;
  for (std::size_t id = 0; id < law.size(); ++id) {
    if (law[id] == 0.0 && counts[id] > 0) return std::numeric_limits<double>::infinity();
    if (law[id] == 0.0) continue;
    const double expected = law[id] * draws;
    REQUIRE(expected >= 20.0);
    chi_square += (counts[id] - expected) * (counts[id] - expected) / expected;
    ++cells;
  }
  return cells == 1 ? 0.0 : (chi_square - (cells - 1)) / std::sqrt(2.0 * (cells - 1));
}

}  // namespace kvpage_test
