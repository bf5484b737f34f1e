/// \file The law of batch invariance as one property: a row has the same bits alone and in any batch, whoever computes it.
#pragma once

#include "support/catch.hpp"
#include "support/isa.hpp"

#include <kvpage/exec/cpu.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvpage_test {

/// Pairs per kernel: none that differs of 500 means a rate below 0.6 %, of 10,000 below 0.03 % (at 95 %).
inline constexpr std::int64_t kPairsPerChange = 500;
inline constexpr std::int64_t kPairsPerNight = 10'000;

/// Seeded choices.
class LawRandom {
 public:
  explicit LawRandom(std::uint64_t seed) : engine_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }
  template <class Choices>
  auto pick(const Choices& choices) {
    return choices[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(choices)) - 1))];
  }
  std::vector<float> floats(std::int64_t count, float least = -2.0f, float most = 2.0f) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& x : values) x = least + (most - least) * static_cast<float>(engine_() >> 40) * 0x1p-24f;
    return values;
  }
  /// `count` different numbers below n in a random order.
  std::vector<std::int64_t> some_of(std::int64_t n, std::int64_t count) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), engine_);
    all.resize(static_cast<std::size_t>(count));
    return all;
  }

 private:
  std::mt19937_64 engine_;
};

/// All that a kernel makes of one row.
using RowBytes = std::vector<std::byte>;

template <class T>
RowBytes bytes_of(const T* values, std::int64_t count) {
  const auto* begin = reinterpret_cast<const std::byte*>(values);
  return {begin, begin + count * static_cast<std::int64_t>(sizeof(T))};
}

/// Sizes and weights of one kernel with a supply of rows, each with all that its result may depend on. `run` computes some of them in one
/// go; whatever the result must not depend on (strides, memory, cuts, order of blocks) it takes from `how`.
template <class P>
concept LawProblem = requires(const P& problem, kvpage::Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) {
  { problem.num_rows() } -> std::same_as<std::int64_t>;
  { problem.run(cpu, rows, how) } -> std::same_as<std::vector<RowBytes>>;  // [rows.size()]
  { problem.description() } -> std::same_as<std::string>;
};

/// Rows of floats somewhere in memory, at some distance; NaN between them.
class PlacedRows {
 public:
  PlacedRows(std::int64_t num_rows, std::int64_t cols, LawRandom& how)
      : cols_(cols), stride_(cols + how.between(0, 9)), offset_(how.between(0, 15)),
        memory_(static_cast<std::size_t>(offset_ + num_rows * stride_), std::numeric_limits<float>::quiet_NaN()) {}
  /// Holds rows `rows` of `source` [.., cols].
  PlacedRows(const std::vector<float>& source, std::int64_t cols, std::span<const std::int64_t> rows, LawRandom& how)
      : PlacedRows(std::ssize(rows), cols, how) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(source.data() + rows[i] * cols, cols, row(static_cast<std::int64_t>(i)));
    }
  }
  float* data() { return memory_.data() + offset_; }
  float* row(std::int64_t i) { return data() + i * stride_; }
  std::int64_t stride() const { return stride_; }
  std::vector<RowBytes> bytes(std::int64_t num_rows) {
    std::vector<RowBytes> all;
    for (std::int64_t i = 0; i < num_rows; ++i) all.push_back(bytes_of(row(i), cols_));
    return all;
  }

 private:
  std::int64_t cols_, stride_, offset_;
  std::vector<float> memory_;
};

/// Workers that live as long as the program: most tests of the law would do little else than start threads.
inline kvpage::Cpu& crew(int num_threads, kvpage::Isa isa) {
  static std::map<std::pair<int, kvpage::Isa>, std::unique_ptr<kvpage::Cpu>> crews;
  auto& found = crews[{num_threads, isa}];
  if (found == nullptr) found = std::make_unique<kvpage::Cpu>(kvpage::CpuConfig{.num_threads = num_threads, .isa = isa});
  return *found;
}

/// What was compared; `violation` is empty or tells how to see the first pair again that differed.
struct LawReport {
  std::int64_t num_pairs = 0;
  std::int64_t num_apart = 0;  ///< pairs whose row differs from its neighbour in the batch: else equal bits would mean little
  std::string violation;
};

namespace detail {
/// One pair: a batch of a size that the bug reports name, or any, and one of its rows alone.
template <LawProblem P>
void check_pair(const P& problem, kvpage::Isa isa, LawRandom& random, LawReport& report) {
  constexpr std::array<std::int64_t, 3> kSizes{2, 7, 32};
  const std::int64_t most = problem.num_rows();
  const std::int64_t size = random.one_in(2) ? std::min(most, random.pick(kSizes)) : random.between(2, most);
  const auto rows = random.some_of(most, size);
  const auto place = static_cast<std::size_t>(random.between(0, size - 1));
  const int batch_threads = static_cast<int>(random.between(1, 3)), alone_threads = static_cast<int>(random.between(1, 3));
  const auto batch = problem.run(crew(batch_threads, isa), rows, random);
  const auto alone = problem.run(crew(alone_threads, isa), std::span(rows).subspan(place, 1), random);
  ++report.num_pairs;
  if (batch[place] != batch[(place + 1) % rows.size()]) ++report.num_apart;
  if (alone.at(0) == batch.at(place)) return;
  const auto differs = std::mismatch(alone[0].begin(), alone[0].end(), batch[place].begin(), batch[place].end());
  report.violation = problem.description() + " on " + kvpage::isa_name(isa) + ": row " + std::to_string(rows[place]) + " alone (" +
                     std::to_string(alone_threads) + " threads) and at place " + std::to_string(place) + " of " + std::to_string(size) +
                     " (" + std::to_string(batch_threads) + " threads) differ from byte " +
                     std::to_string(differs.first - alone[0].begin()) + " of " + std::to_string(alone[0].size()) + " on";
}
}  // namespace detail

/// Compares `num_pairs` pairs, a few per problem of `make(LawRandom&)`, until one differs. No pair is tried twice.
template <class Make>
LawReport compare_pairs(std::int64_t num_pairs, std::uint64_t first_seed, Make&& make) {
  constexpr int kPairsPerProblem = 5;
  LawReport report;
  const auto isas = runnable_isas();
  for (std::uint64_t seed = first_seed; report.num_pairs < num_pairs; ++seed) {
    LawRandom random(seed);
    const auto problem = make(random);
    const kvpage::Isa isa = random.one_in(4) ? random.pick(isas) : isas.back();  // the widest one is what users run
    for (int i = 0; i < kPairsPerProblem && report.num_pairs < num_pairs; ++i) {
      detail::check_pair(problem, isa, random, report);
      if (report.violation.empty()) continue;
      report.violation = "seed " + std::to_string(seed) + ", pair " + std::to_string(i) + ": " + report.violation;
      return report;
    }
  }
  return report;
}

/// Requires the law of `kernel`.
template <class Make>
void require_law(const std::string& kernel, std::int64_t num_pairs, Make&& make) {
  const std::uint64_t first_seed = num_pairs == kPairsPerChange ? 1 : 1'000'000;  // a night sees others than each change
  const LawReport report = compare_pairs(num_pairs, first_seed, make);
  if (!report.violation.empty()) FAIL(kernel << ": " << report.violation);
  REQUIRE(report.num_pairs == num_pairs);
  REQUIRE(report.num_apart > num_pairs * 9 / 10);
  std::printf("%s: %lld pairs, 0 differ\n", kernel.c_str(), static_cast<long long>(report.num_pairs));
}

}  // namespace kvpage_test
