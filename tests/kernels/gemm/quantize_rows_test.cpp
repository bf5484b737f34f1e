#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/random_floats.hpp"

#include <kvpage/kernels/quantize_rows/cpu.hpp>
#include <kvpage/kernels/quantize_rows/reference.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

namespace {
using namespace kvpage;

std::vector<QuantizedGroup> quantize(std::vector<float> x, std::int64_t rows, std::int64_t cols, std::optional<Isa> isa, int num_threads) {
  std::vector<QuantizedGroup> groups(static_cast<std::size_t>(rows * QuantizedRows::groups_for(cols)));
  const QuantizeRowsArgs args{x.data(), cols, rows, {groups.data(), rows, cols, QuantizedRows::groups_for(cols)}};
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
}  // namespace

TEST_CASE("quantize_rows.every_path_equals_the_reference", "[gemm]") {
  for (const std::int64_t cols : {1, 15, 16, 17, 31, 32, 33, 576, 1000}) {
    auto x = kvpage_test::random_floats(7 * cols, static_cast<std::uint32_t>(cols), -3.0f, 3.0f);
    x[0] = 0.0f;
    for (std::int64_t i = 0; i < cols; ++i) x[static_cast<std::size_t>(2 * cols + i)] *= 1e-34f;  // below 2^-100: zero
    for (std::int64_t i = 0; i < cols; ++i) x[static_cast<std::size_t>(3 * cols + i)] *= 1e37f;
    for (std::int64_t i = 0; i < cols; ++i) x[static_cast<std::size_t>(4 * cols + i)] = 0.5f * static_cast<float>(i % 255 - 127);  // ties
    x[static_cast<std::size_t>(5 * cols)] = NAN;
    x[static_cast<std::size_t>(6 * cols + cols - 1)] = -INFINITY;
    const auto expected = quantize(x, 7, cols, std::nullopt, 1);
    for (const Isa isa : kvpage_test::runnable_isas()) {
      const auto actual = quantize(x, 7, cols, isa, 3);
      for (std::int64_t r = 0; r < 7; ++r) {
        for (std::int64_t g = 0; g < ceil_div(cols, 32); ++g) {
          const auto at = static_cast<std::size_t>(r * QuantizedRows::groups_for(cols) + g);
          CAPTURE(isa_name(isa), cols, r, g, expected[at].d, actual[at].d);
          REQUIRE(same_group(actual[at], expected[at]));
        }
      }
    }
    REQUIRE(std::isnan(expected[static_cast<std::size_t>(5 * QuantizedRows::groups_for(cols))].d));
    REQUIRE(expected[static_cast<std::size_t>(2 * QuantizedRows::groups_for(cols))].d == 0.0f);
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
