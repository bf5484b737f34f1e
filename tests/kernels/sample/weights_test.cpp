/// \file Integer weights: accuracy, monotony, and the draw on them.
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <kvpage/kernels/sample/weights.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace {

using namespace kvpage;

/// Walks through floats from 0 down to -46, `step` codes at a time; returns the number of broken promises.
int count_broken(std::uint32_t step) {
  const auto last = std::bit_cast<std::uint32_t>(46.0f);
  std::uint64_t previous = kUnitWeight;
  int broken = 0;
  for (std::uint32_t code = 0; code < last; code += step) {
    const float exponent = -std::bit_cast<float>(code);
    const std::uint64_t weight = exp2_weight(exponent);
    if (weight > previous) ++broken;
    previous = weight;
    const double exact = std::ldexp(std::exp2(static_cast<double>(exponent)), 44);
    if (exponent >= -45.0f && std::abs(static_cast<double>(weight) - exact) > exact * 0x1p-29 + 1.0) ++broken;
  }
  return broken;
}

}  // namespace

TEST_CASE("sample.weights.are_accurate_and_never_grow_as_logits_fall", "[sample]") { CHECK(count_broken(997) == 0); }

TEST_CASE("sample.weights.hold_for_every_float", "[sample][night]") {
  if (!kvpage_test::night_run()) kvpage_test::skip("long-running");
  CHECK(count_broken(1) == 0);
}

TEST_CASE("sample.weights.known_values", "[sample]") {
  STATIC_REQUIRE(exp2_weight(0.0f) == kUnitWeight);
  STATIC_REQUIRE(exp2_weight(-0.0f) == kUnitWeight);
  STATIC_REQUIRE(exp2_weight(-1.0f) == kUnitWeight / 2);
  STATIC_REQUIRE(exp2_weight(-44.0f) == 1);
  STATIC_REQUIRE(exp2_weight(-44.5f) == 0);
  STATIC_REQUIRE(exp2_weight(-1e30f) == 0);
  STATIC_REQUIRE(exp2_weight(-std::numeric_limits<float>::infinity()) == 0);
  STATIC_REQUIRE(exp2_weight(std::numeric_limits<float>::quiet_NaN()) == 0);
  STATIC_REQUIRE(logit_weight(3.0f, 3.0f, 1e-5f) == kUnitWeight);
  CHECK(logit_weight(-3.4e38f, 3.4e38f, 1.0f) == 0);
}

TEST_CASE("sample.weights.multiply_high_is_the_upper_half_of_the_product", "[sample]") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t a = random() >> (random() % 64);
    const std::uint64_t b = random() >> (random() % 64);
    const auto want = static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
    if (multiply_high(a, b) != want) FAIL(a << " * " << b);
  }
  CHECK(multiply_high(~std::uint64_t{0}, ~std::uint64_t{0}) == ~std::uint64_t{0} - 1);
}

TEST_CASE("sample.weights.a_draw_hits_each_token_exactly_on_its_share", "[sample]") {
  constexpr std::array<std::uint64_t, 6> kWeights{0, 3, 0, 1, 4, 0};
  std::array<int, 6> hits{};
  for (std::uint64_t eighth = 0; eighth < 8; ++eighth) {
    for (const std::uint64_t offset : {std::uint64_t{0}, (std::uint64_t{1} << 61) - 1}) {
      ++hits[draw_weighted(kWeights.data(), 6, 8, (eighth << 61) + offset)];
    }
  }
  CHECK(hits == std::array<int, 6>{0, 6, 0, 2, 8, 0});
}
