/// \file Quantised vectors: error at most half a step, nothing clipped, zeros exact, damage visible.
#include "support/catch.hpp"

#include <kvpage/kv/kv_quant.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace kvpage;

namespace {

template <KVCodec Codec>
struct Coded {
  explicit Coded(const std::vector<float>& x)
      : codes(x.size()), params(static_cast<std::size_t>(Codec::num_params(static_cast<std::int64_t>(x.size())))) {
    Codec::encode(x.data(), static_cast<std::int64_t>(x.size()), codes.data(), params.data());
  }
  float value(std::size_t d) const { return Codec::decode(codes[d], params.data(), static_cast<std::int64_t>(d)); }
  std::vector<typename Codec::Code> codes;
  std::vector<std::uint16_t> params;
};

std::vector<float> random_vector(std::mt19937& random, std::size_t size, float scale) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> x(size);
  for (float& value : x) value = normal(random);
  return x;
}

}  // namespace

TEST_CASE("kv.quant.symmetric_error_is_at_most_half_a_step", "[kv]") {
  std::mt19937 random(1);
  for (const std::size_t size : {8u, 64u, 80u, 256u}) {
    for (const float scale : {1e-4f, 1.0f, 300.0f}) {
      for (int round = 0; round < 50; ++round) {
        const std::vector<float> x = random_vector(random, size, scale);
        const Coded<SymmetricKeyCodec> key(x);
        const Coded<SymmetricValueCodec> value(x);
        const float step = decode_half(key.params[0]);
        float largest = 0.0f;
        for (const float v : x) largest = std::max(largest, std::fabs(v));
        CHECK(127.0f * step >= largest);  // rounded up: nothing clips
        CHECK(step <= largest / 127.0f * 1.001f + 0x1p-24f);
        for (std::size_t d = 0; d < size; ++d) {
          CHECK(std::fabs(key.value(d) - x[d]) <= 0.5001f * step);
          CHECK(key.value(d) == value.value(d));
          CHECK(key.codes[d] == static_cast<std::uint8_t>(value.codes[d] + 128));
        }
      }
    }
  }
}

TEST_CASE("kv.quant.grouped_error_is_at_most_half_a_step_of_its_group", "[kv]") {
  std::mt19937 random(2);
  for (const std::size_t size : {8u, 64u, 80u, 256u}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> x = random_vector(random, size, 1.0f);
      for (std::size_t d = 0; d < 8; ++d) x[d] += 100.0f;  // one group far away from zero
      const Coded<GroupedCodec> coded(x);
      CHECK(coded.params.size() == 2 * ((size + 31) / 32));
      for (std::size_t d = 0; d < size; ++d) {
        const float step = decode_half(coded.params[2 * (d / 32)]);
        CHECK(coded.codes[d] <= 15);
        CHECK(std::fabs(coded.value(d) - x[d]) <= 0.5001f * step + 1e-5f);
      }
    }
  }
}

TEST_CASE("kv.quant.zeros_are_exact_and_damage_is_visible", "[kv]") {
  std::vector<float> x(64, 0.0f);
  const Coded<SymmetricKeyCodec> zeros(x);
  const Coded<GroupedCodec> grouped_zeros(x);
  CHECK(zeros.params[0] == 0);
  for (std::size_t d = 0; d < 64; ++d) CHECK((zeros.value(d) == 0.0f && grouped_zeros.value(d) == 0.0f));
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    x[40] = bad;
    const Coded<SymmetricKeyCodec> damaged(x);
    const Coded<GroupedCodec> grouped(x);
    for (std::size_t d = 0; d < 64; ++d) {
      CHECK(std::isnan(damaged.value(d)));
      CHECK(std::isnan(grouped.value(d)) == (d >= 32));  // only the group that holds it
    }
  }
}

TEST_CASE("kv.quant.rounding_to_halves_goes_the_asked_way", "[kv]") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0f, 100.0f);
  for (int i = 0; i < 10000; ++i) {
    const float x = normal(random) * std::exp2(static_cast<float>(static_cast<int>(random() % 30) - 25));
    const float up = decode_half(detail::half_rounded_up(std::fabs(x)));
    const float down = decode_half(detail::half_rounded_down(x));
    CHECK(up >= std::fabs(x));
    CHECK(down <= x);
    const float ulp = std::max(std::fabs(x) * 0x1p-10f, 0x1p-24f);
    CHECK((up - std::fabs(x) <= ulp && x - down <= ulp));
  }
  CHECK(detail::half_rounded_down(0.0f) == 0);
  CHECK(detail::half_rounded_down(-0x1p-30f) == 0x8001);
}
