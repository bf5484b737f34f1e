/// \file The rotation: it is the Hadamard matrix with signs, keeps dot products, and can be undone.
#include "support/catch.hpp"

#include <kvpage/kv/hadamard.hpp>
#include <kvpage/kv/key_bias.hpp>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

using namespace kvpage;

namespace {
std::vector<double> random_vector(std::mt19937& random, std::int64_t size) {
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<std::size_t>(size));
  for (double& value : x) value = normal(random);
  return x;
}
}  // namespace

TEST_CASE("kv.hadamard.equals_the_matrix_by_definition", "[kv]") {
  std::mt19937 random(1);
  const std::vector<double> x = random_vector(random, 64);
  std::vector<double> y = x;
  hadamard_rotate(y.data(), 64);
  for (std::uint32_t i = 0; i < 64; ++i) {
    double sum = 0.0;
    for (std::uint32_t j = 0; j < 64; ++j) {
      const double sign = std::popcount(i & j) % 2 == 0 ? 1.0 : -1.0;
      sum += sign * static_cast<double>(kRotationSigns.value[j]) * x[j] / 8.0;
    }
    CHECK(std::fabs(sum - y[i]) < 1e-13);
  }
}

TEST_CASE("kv.hadamard.keeps_dot_products_and_can_be_undone", "[kv]") {
  std::mt19937 random(2);
  for (const std::int64_t size : {8, 16, 72, 80, 96, 128, 256, 512}) {
    const std::vector<double> a = random_vector(random, size);
    const std::vector<double> b = random_vector(random, size);
    std::vector<double> rotated_a = a;
    std::vector<double> rotated_b = b;
    hadamard_rotate(rotated_a.data(), size);
    hadamard_rotate(rotated_b.data(), size);
    double dot = 0.0;
    double rotated_dot = 0.0;
    for (std::size_t d = 0; d < a.size(); ++d) dot += a[d] * b[d], rotated_dot += rotated_a[d] * rotated_b[d];
    CHECK(std::fabs(dot - rotated_dot) < 1e-11);
    hadamard_unrotate(rotated_a.data(), size);
    for (std::size_t d = 0; d < a.size(); ++d) CHECK(std::fabs(rotated_a[d] - a[d]) < 1e-13);
  }
}

TEST_CASE("kv.hadamard.signs_are_part_of_the_format", "[kv]") {
  // Changing them would make every stored page unreadable: these are the signs of all pages ever written.
  std::uint64_t first = 0;
  int negative = 0;
  for (int d = 0; d < 512; ++d) {
    if (kRotationSigns.value[d] < 0.0f && d < 64) first |= std::uint64_t{1} << d;
    negative += kRotationSigns.value[d] < 0.0f ? 1 : 0;
  }
  CHECK(first == 0xABF6'D533'44D3'38A0u);
  CHECK((negative > 200 && negative < 312));
}

TEST_CASE("kv.key_bias.the_turned_bias_is_a_rotation_by_the_middle_position", "[kv]") {
  const float bias[8] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f};
  const float inv_freq[3] = {1.0f, 0.1f, 0.01f};
  for (const bool adjacent : {false, true}) {
    std::vector<float> rotation(2 * 6);
    fill_page_rotation(inv_freq, 6, 2, rotation.data());
    double turned[8];
    turned_key_bias(KeyBias{bias, rotation.data(), 2, 6, adjacent}, 1, 0, 8, turned);
    for (int i = 0; i < 3; ++i) {
      const double angle = (32.0 + 15.5) * static_cast<double>(inv_freq[i]);
      const int x = adjacent ? 2 * i : i;
      const int y = adjacent ? 2 * i + 1 : i + 3;
      const double bx = static_cast<double>(bias[x]);
      const double by = static_cast<double>(bias[y]);
      CHECK(std::fabs(turned[x] - (bx * std::cos(angle) - by * std::sin(angle))) < 1e-5);
      CHECK(std::fabs(turned[y] - (bx * std::sin(angle) + by * std::cos(angle))) < 1e-5);
    }
    CHECK((turned[6] == 7.0 && turned[7] == 8.0));  // beyond rotary_dim: not turned
  }
}
