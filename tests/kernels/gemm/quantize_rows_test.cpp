#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/random_floats.hpp"

#include <kvpage/kernels/quantize_rows/cpu.hpp>
#include <kvpage/kernels/quantize_rows/reference.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>

namespace {
using namespace kvpage;

std::vector<QuantizedGroup> quantize(std::vector<float> x, std::int64_t rows, std::int64_t cols, std::optional<Isa> isa, int num_threads,
                                     GroupScale group_scale = GroupScale::kLargest) {
  std::vector<QuantizedGroup> groups(static_cast<std::size_t>(rows * QuantizedRows::groups_for(cols)));
  const QuantizeRowsArgs args{x.data(), cols, rows, {groups.data(), rows, cols, QuantizedRows::groups_for(cols)}, group_scale};
  if (!isa) {
    REQUIRE(reference::quantize_rows(args).ok());
  } else {
    Cpu cpu({.num_threads = num_threads, .isa = *isa});
    REQUIRE(quantize_rows(cpu, args).ok());
  }
  return groups;
}

bool same_group(const QuantizedGroup& a, const QuantizedGroup& b) {
  const bool same_d = std::isnan(a.d) ? std::isnan(b.d) && std::isnan(b.d_sum) : a.d == b.d && a.d_sum == b.d_sum;
  return same_d && a.sum == b.sum && a.sum_low == b.sum_low && std::memcmp(a.q, b.q, sizeof a.q) == 0;
}

void require_groups(Isa isa, const std::vector<QuantizedGroup>& actual, const std::vector<QuantizedGroup>& expected) {
  for (std::size_t g = 0; g < expected.size(); ++g) {
    CAPTURE(isa_name(isa), g, expected[g].d, actual[g].d);
    REQUIRE(same_group(actual[g], expected[g]));
  }
}

/// Of `values` rounded to multiples of d.
double squared_error(std::span<const float> values, double d) {
  double sum = 0;
  for (const float value : values) sum += std::pow(std::remainder(static_cast<double>(value), d), 2);
  return sum;
}
}  // namespace

TEST_CASE("quantize_rows.every_path_equals_the_reference", "[gemm]") {
  for (const std::int64_t cols : {1, 15, 16, 17, 31, 32, 33, 512, 543, 576, 1000}) {
    CAPTURE(cols);
    auto x = kvpage_test::random_floats(7 * cols, static_cast<std::uint32_t>(cols), -3.0f, 3.0f);
    x[0] = 0.0f;
    for (std::int64_t i = 0; i < cols; ++i) x[static_cast<std::size_t>(2 * cols + i)] *= 1e-34f;  // below 2^-100: zero
    for (std::int64_t i = 0; i < cols; ++i) x[static_cast<std::size_t>(3 * cols + i)] *= 1e37f;
    for (std::int64_t i = 0; i < cols; ++i) x[static_cast<std::size_t>(4 * cols + i)] = 0.5f * static_cast<float>(i % 255 - 127);  // ties
    x[static_cast<std::size_t>(5 * cols)] = NAN;
    x[static_cast<std::size_t>(6 * cols + cols - 1)] = -INFINITY;
    for (const GroupScale group_scale : {GroupScale::kLargest, GroupScale::kSearched}) {
      const auto expected = quantize(x, 7, cols, std::nullopt, 1, group_scale);
      for (const Isa isa : kvpage_test::runnable_isas()) require_groups(isa, quantize(x, 7, cols, isa, 3, group_scale), expected);
      REQUIRE(std::isnan(expected[static_cast<std::size_t>(5 * QuantizedRows::groups_for(cols))].d));
      REQUIRE(expected[static_cast<std::size_t>(2 * QuantizedRows::groups_for(cols))].d == 0.0f);
    }
  }
}

TEST_CASE("quantize_rows.a_searched_scale_is_the_best_of_eight", "[gemm]") {
  constexpr std::size_t kGroups = 400;
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(kGroups * 32);
  for (float& value : x) value = normal(rng);
  const auto largest = quantize(x, 1, kGroups * 32, best_isa(detect_cpu_features()), 1);
  const auto searched = quantize(x, 1, kGroups * 32, best_isa(detect_cpu_features()), 1, GroupScale::kSearched);
  double before = 0, after = 0;
  std::array<int, kMostSteps - kLeastSteps + 1> chosen{};
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::span<const float> values(x.data() + 32 * g, 32);
    const double amax = 127.0 * static_cast<double>(largest[g].d);
    double best = squared_error(values, amax / kMostSteps);
    before += best;
    for (int steps = kMostSteps - 1; steps >= kLeastSteps; --steps) best = std::min(best, squared_error(values, amax / steps));
    const double error = squared_error(values, static_cast<double>(searched[g].d));
    after += error;
    CAPTURE(g, error, best);
    REQUIRE(error <= 1.01 * best);  // what integers make of two scales that are nearly as good
    const long steps = std::lround(amax / static_cast<double>(searched[g].d));
    ++chosen.at(static_cast<std::size_t>(kMostSteps - steps));
  }
  REQUIRE(after < 0.84 * before);
  for (const int count : chosen) REQUIRE(count > 0);
}

TEST_CASE("quantize_rows.weights_of_steps_are_rounded_squares", "[gemm]") {
  REQUIRE(std::size(kStepWeights) == kMostSteps - kLeastSteps + 1);
  for (int steps = kMostSteps; steps >= kLeastSteps; --steps) {
    const double ratio = static_cast<double>(kLeastSteps) / steps;
    REQUIRE(kStepWeights[kMostSteps - steps] == std::lround(65535.0 * ratio * ratio));
  }
}

TEST_CASE("quantize_rows.a_searched_scale_keeps_exact_values", "[gemm]") {
  std::vector<float> x(32);
  for (std::size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(127 - 8 * static_cast<int>(i));  // 127 .. -121
  for (const Isa isa : kvpage_test::runnable_isas()) {
    for (const float sign : {1.0f, -1.0f}) {
      auto signed_x = x;
      for (float& value : signed_x) value *= sign;
      const QuantizedGroup group = quantize(signed_x, 1, 32, isa, 1, GroupScale::kSearched)[0];
      REQUIRE(group.d == 1.0f);
      for (std::size_t i = 0; i < 32; ++i) REQUIRE(static_cast<float>(group.q[i]) == signed_x[i]);
    }
  }
}

TEST_CASE("quantize_rows.errors_are_at_most_half_a_step", "[gemm]") {
  const auto x = kvpage_test::random_floats(32 * 50, 5, -10.0f, 10.0f);
  const auto groups = quantize(x, 1, 32 * 50, best_isa(detect_cpu_features()), 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const QuantizedGroup& group = groups[i / 32];
    REQUIRE(std::fabs(group.d * static_cast<float>(group.q[i % 32]) - x[i]) <= 0.50001f * group.d);
    REQUIRE(group.q[i % 32] >= -127);
  }
}

TEST_CASE("quantize_rows.edges_of_the_float_range", "[gemm]") {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kLeastCounted = 0x1p-100f;
  struct Edge {
    float amax, other;  // values 0 and 20 of a group; the others are 0
    float d;
    int q, q_other;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Edge edges[] = {
      {kLargest, -kLargest, kLargest / 127.0f, 127, -127}, {-kLargest, 1.0f, kLargest / 127.0f, -127, 0},
      {kLeastCounted, -0x1p-101f, kLeastCounted / 127.0f, 127, -64}, {std::nextafter(kLeastCounted, 0.0f), 0.0f, 0.0f, 0, 0},
      {0x1p-149f, -0x1p-126f, 0.0f, 0, 0}, {-0.0f, 0.0f, 0.0f, 0, 0}, {127.0f, 0x1p-149f, 1.0f, 127, 0}, {127.0f, 2.5f, 1.0f, 127, 2},
      {-127.0f, -3.5f, 1.0f, -127, -4}, {-nan, 1.0f, nan, 0, 0}, {INFINITY, -INFINITY, nan, 0, 0}, {kLargest, -nan, nan, 0, 0}};
  for (const Edge& edge : edges) {
    std::vector<float> x(96, 1.0f);  // the groups beside must not see it
    std::fill(x.begin() + 32, x.begin() + 64, -0.0f);
    x[32] = edge.amax, x[52] = edge.other;
    for (const Isa isa : kvpage_test::runnable_isas()) {
      CAPTURE(isa_name(isa), edge.amax, edge.other);
      const auto groups = quantize(x, 1, 96, isa, 1);
      const QuantizedGroup& group = groups[1];
      REQUIRE((std::isnan(edge.d) ? std::isnan(group.d) && std::isnan(group.d_sum) : group.d == edge.d));
      REQUIRE(group.q[0] == edge.q);
      REQUIRE(group.q[20] == edge.q_other);
      REQUIRE(group.sum == edge.q + edge.q_other);
      REQUIRE(group.sum_low == edge.q);
      REQUIRE((groups[0].d == 1.0f / 127.0f && groups[0].sum == 32 * 127 && groups[0].sum_low == 16 * 127));
      REQUIRE(std::memcmp(&groups[0], &groups[2], sizeof groups[0]) == 0);
    }
  }
}

TEST_CASE("quantize_rows.the_scaled_sum_is_finite_up_to_2_to_the_122", "[gemm]") {
  for (const Isa isa : kvpage_test::runnable_isas()) {
    for (const float sign : {1.0f, -1.0f}) {
      CAPTURE(isa_name(isa), sign);
      const QuantizedGroup within = quantize(std::vector<float>(32, sign * 0x1p122f), 1, 32, isa, 1)[0];
      REQUIRE(within.sum == static_cast<int>(sign) * 32 * 127);
      REQUIRE(std::fabs(within.d_sum - sign * 0x1p127f) <= 0x1p105f);
      const QuantizedGroup beyond = quantize(std::vector<float>(32, sign * std::numeric_limits<float>::max()), 1, 32, isa, 1)[0];
      REQUIRE(std::isfinite(beyond.d));
      REQUIRE(beyond.d_sum == sign * INFINITY);
    }
  }
}

TEST_CASE("quantize_rows.sums_are_exact_with_any_signs", "[gemm]") {
  std::mt19937 rng(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> x(32);
    const int low = static_cast<int>(rng() % 3) - 1, high = static_cast<int>(rng() % 3) - 1;  // 0: any; else all of one sign
    for (std::size_t i = 0; i < 32; ++i) {
      const int sign = i < 16 ? low : high;
      x[i] = static_cast<float>(sign != 0 && rng() % 4 != 0 ? 127 * sign : static_cast<int>(rng() % 255) - 127);
    }
    x[rng() % 32] = rng() % 2 == 0 ? 127.0f : -127.0f;  // amax is 127: codes are the values
    for (const Isa isa : kvpage_test::runnable_isas()) {
      const QuantizedGroup group = quantize(x, 1, 32, isa, 1)[0];
      for (std::size_t i = 0; i < 32; ++i) REQUIRE(static_cast<float>(group.q[i]) == x[i]);
      REQUIRE(group.sum_low == std::accumulate(group.q, group.q + 16, 0));
      REQUIRE(group.sum == std::accumulate(group.q, group.q + 32, 0));
      REQUIRE(group.d_sum == static_cast<float>(group.sum));
    }
  }
}

TEST_CASE("quantize_rows.memory_is_placed_and_checked", "[gemm]") {
  REQUIRE(QuantizedRows::groups_for(576) == 18);
  REQUIRE(QuantizedRows::groups_for(2048) * 48 % 1024 != 0);
  alignas(16) std::byte memory[48 * 4];
  REQUIRE(QuantizedRows::place(memory, 2, 64).row_groups == 2);
  REQUIRE_THROWS_AS(QuantizedRows::place(memory, 3, 64), ConfigError);
  REQUIRE_THROWS_AS(QuantizedRows::place(std::span(memory).subspan(8), 1, 32), ConfigError);
}

TEST_CASE("quantize_rows.bad_launches_are_refused", "[gemm]") {
  std::vector<float> x(64);
  std::vector<QuantizedGroup> groups(2);
  Cpu cpu({.num_threads = 1});
  const QuantizeRowsArgs good{x.data(), 32, 2, {groups.data(), 2, 32, 1}};
  REQUIRE(quantize_rows(cpu, good).ok());
  QuantizeRowsArgs args = good;
  args.num_rows = 3;
  REQUIRE(quantize_rows(cpu, args).code() == StatusCode::kCapacity);
  args = good;
  args.x_stride = 31;
  REQUIRE_FALSE(quantize_rows(cpu, args).ok());
  args = good;
  args.x = nullptr;
  REQUIRE_FALSE(quantize_rows(cpu, args).ok());
}
