#include "exec/simd_probe.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"

#include <bit>
#include <cmath>

namespace {
constexpr int kExp = 0, kTanh = 1, kSilu = 2, kGelu = 3, kSigmoid = 4;
const char* const kNames[] = {"exp", "tanh", "silu", "gelu", "sigmoid"};

double exact(int function, double x) {
  if (function == kExp) return std::exp(x);
  if (function == kTanh) return std::tanh(x);
  if (function == kSigmoid) return 1.0 / (1.0 + std::exp(-x));
  if (function == kSilu) return x / (1.0 + std::exp(-x));
  return x / (1.0 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}

/// Distance of `value` from the exact result, in units of the result's last place.
double ulp_error(float value, double exact_value) {
  const float nearest = std::fabs(static_cast<float>(exact_value));
  const double unit = static_cast<double>(std::nextafter(nearest, INFINITY)) - static_cast<double>(nearest);
  return std::fabs(static_cast<double>(value) - exact_value) / unit;
}

/// Largest error of `function` over every `stride`-th float with lo <= |x| <= hi, of the signs asked for; all paths must agree.
double largest_error(int function, float lo, float hi, bool negative, std::uint32_t stride) {
  double largest = 0;
  const std::uint32_t sign = negative ? 0x80000000u : 0u;
  for (auto bits = std::bit_cast<std::uint32_t>(lo); bits <= std::bit_cast<std::uint32_t>(hi); bits += 16 * stride) {
    float x[16];
    for (std::uint32_t i = 0; i < 16; ++i) {
      x[i] = std::bit_cast<float>(std::min(bits + i * stride, std::bit_cast<std::uint32_t>(hi)) | sign);
    }
    float expected[16];
    kvpage_test::kMathProbes[0](function, x, expected);
    for (const kvpage::Isa isa : kvpage_test::runnable_isas()) {
      float out[16];
      kvpage_test::kMathProbes[static_cast<std::size_t>(isa)](function, x, out);
      for (int i = 0; i < 16; ++i) {
        if (std::bit_cast<std::uint32_t>(out[i]) != std::bit_cast<std::uint32_t>(expected[i])) {
          CAPTURE(kNames[function], kvpage::isa_name(isa), x[i], out[i], expected[i]);
          FAIL("a path differs from generic");
        }
      }
    }
    for (int i = 0; i < 16; ++i) largest = std::max(largest, ulp_error(expected[i], exact(function, static_cast<double>(x[i]))));
  }
  return largest;
}

float at(int function, float x) {
  const float in[16] = {x};
  float out[16];
  kvpage_test::kMathProbes[0](function, in, out);
  return out[0];
}
}  // namespace

TEST_CASE("exec.simd_math.exp_is_right_to_two_units", "[exec]") {
  CHECK(largest_error(kExp, 1e-10f, 87.3f, true, 8191) <= 2.0);
  CHECK(largest_error(kExp, 1e-10f, 88.7f, false, 8191) <= 2.0);
  CHECK(largest_error(kExp, 87.3f, 103.9f, true, 241) <= 2.0);  // subnormal results
}

TEST_CASE("exec.simd_math.exp_at_the_edges", "[exec]") {
  CHECK(at(kExp, 0.0f) == 1.0f);
  CHECK(at(kExp, -0.0f) == 1.0f);
  CHECK(at(kExp, -INFINITY) == 0.0f);
  CHECK(at(kExp, -104.0f) == 0.0f);
  CHECK(at(kExp, -1e30f) == 0.0f);
  CHECK(at(kExp, INFINITY) == INFINITY);
  CHECK(at(kExp, 89.0f) == INFINITY);
  CHECK(std::isnan(at(kExp, NAN)));
}

TEST_CASE("exec.simd_math.tanh_sigmoid_silu_and_gelu_are_right_to_a_few_units", "[exec]") {
  for (const bool negative : {false, true}) {
    CAPTURE(negative);
    CHECK(largest_error(kTanh, 1e-10f, 30.0f, negative, 16381) <= 3.0);
    CHECK(largest_error(kSigmoid, 1e-10f, 80.0f, negative, 16381) <= 3.0);
    CHECK(largest_error(kSilu, 1e-10f, 80.0f, negative, 16381) <= 3.0);
  }
  CHECK(largest_error(kGelu, 1e-10f, 30.0f, false, 16381) <= 3.0);
  CHECK(largest_error(kGelu, 1e-10f, 1.0f, true, 16381) <= 4.0);
  // Far below zero the error of the argument (up to 50) is what the exponential enlarges.
  CHECK(largest_error(kGelu, 1.0f, 7.0f, true, 16381) <= 128.0);
}

TEST_CASE("exec.simd_math.tanh_saturates_and_keeps_signs", "[exec]") {
  CHECK(at(kTanh, 100.0f) == 1.0f);
  CHECK(at(kTanh, -INFINITY) == -1.0f);
  CHECK(std::signbit(at(kTanh, -0.0f)));
  CHECK(std::isnan(at(kTanh, NAN)));
}
