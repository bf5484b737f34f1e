/// \file Percentiles: the nearest-rank percentiles of a sample, as reports print them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace kvpage::cli {

/// The smallest value of the sample that at least `percent` of it do not exceed: element ceil(percent / 100 * count), counted from 1.
/// It is always a value that was measured, never a mean of two. Requires: sorted, not empty, 0 < percent <= 100.
inline double nearest_rank(const std::vector<double>& sorted, double percent) {
  const double rank = std::ceil(percent * static_cast<double>(sorted.size()) / 100);
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

/// The three that a report names.
struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0;

  /// Nothing of an empty sample. Cost: sorts the sample.
  static std::optional<Percentiles> of(std::vector<double> values) {
    if (values.empty()) return std::nullopt;
    std::sort(values.begin(), values.end());
    return Percentiles{nearest_rank(values, 50), nearest_rank(values, 90), nearest_rank(values, 99)};
  }
};

}  // namespace kvpage::cli
