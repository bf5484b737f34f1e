// The exponential of the softmax: what its comment promises, on a grid of every octave that it has and on its edges.
#include <kvpage/kernels/paged_attention/cpu.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <limits>

namespace {

/// Distance of 2^x from the right value in units in its last place.
double error_ulp(float x) {
  const double right = std::exp2(static_cast<double>(x));
  const double ulp = std::ldexp(1.0, std::ilogb(right) - 23);
  return std::fabs(static_cast<double>(kvpage::generic::detail::exp2_scalar(x)) - right) / ulp;
}

}  // namespace

TEST_CASE("paged_attention.exp2.is_within_two_units_in_the_last_place", "[paged_attention]") {
  double worst = 0.0;
  for (int octave = -125; octave < 8; ++octave) {
    for (int i = 0; i < 4096; ++i) worst = std::max(worst, error_ulp(static_cast<float>(octave) + static_cast<float>(i) / 4096.0f));
  }
  for (float x = -1.0f; x < 0.0f; x = std::nextafter(x + 0x1p-20f, 1.0f)) worst = std::max(worst, error_ulp(x));
  INFO("at most " << worst << " ulp");
  CHECK(worst <= 2.0);
}

TEST_CASE("paged_attention.exp2.is_exact_at_zero_and_small_below_its_range", "[paged_attention]") {
  using kvpage::generic::detail::exp2_scalar;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int n = -125; n <= 8; ++n) CHECK(exp2_scalar(static_cast<float>(n)) == std::ldexp(1.0f, n));
  for (const float x : {-125.0f, -125.5f, -126.0f, -1000.0f, -std::numeric_limits<float>::max(), -kInf}) CHECK(exp2_scalar(x) == 0x1p-125f);
  CHECK(std::isnan(exp2_scalar(std::numeric_limits<float>::quiet_NaN())));
}
