#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/random_floats.hpp"

#include <kvpage/kernels/quantize_rows/cpu.hpp>
#include <kvpage/kernels/quantize_rows/reference.hpp>

#include <cmath>

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
