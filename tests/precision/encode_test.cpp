/// \file encode: nearest code, ties to even, and the rules at the edges.
#include "precision/definition.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <string>

namespace {

using namespace kvpage;
constexpr float kInf = std::numeric_limits<float>::infinity();

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

template <class P>
std::uint32_t encoded(float value) {
  return P::encode(value);
}

/// The magnitude code nearest to |value|, found in the table of all values; ties go to the even code.
std::uint32_t nearest_code(const kvpage_test::FloatDefinition& format, const std::vector<double>& table, double value) {
  const double magnitude = std::abs(value);
  const auto last = static_cast<std::uint32_t>(table.size() - 1);
  const double step = table[last] - table[last - 1];
  const bool beyond = magnitude >= table[last] + step / 2;  // the tie with the next power of two rounds away: that one is even
  if (beyond && format.overflow_to_infinity) return last + 1;
  if (magnitude >= table[last]) return last;
  const auto above = static_cast<std::uint32_t>(std::upper_bound(table.begin(), table.end(), magnitude) - table.begin());
  const double to_above = table[above] - magnitude;
  const double to_below = magnitude - table[above - 1];
  if (to_above != to_below) return to_above < to_below ? above : above - 1;
  return above % 2 == 0 ? above : above - 1;
}

/// How many of `count` random bit patterns encode to another code than the nearest one.
template <class P>
int count_wrong(std::uint32_t seed, int count) {
  constexpr auto kFormat = kvpage_test::kDefinition<P>;
  const auto table = kvpage_test::finite_values(kFormat);
  std::mt19937 random(seed);
  const auto span = static_cast<std::uint32_t>(std::min(127, kFormat.bias + kFormat.mantissa_bits + 3));
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    auto bits = static_cast<std::uint32_t>(random());
    if (i % 2 == 0) {  // half of them inside the format's range, where most of its codes are
      const auto exponent = 127 - span + static_cast<std::uint32_t>(random()) % (2 * span);
      bits = (bits & 0x807F'FFFFu) | exponent << 23;
    }
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    const std::uint32_t sign = std::signbit(value) ? 1u << (P::kBits - 1) : 0u;
    if (encoded<P>(value) != (nearest_code(kFormat, table, static_cast<double>(value)) | sign)) ++wrong;
  }
  return wrong;
}

}  // namespace

TEST_CASE("precision.encode.every_code_round_trips", "[precision]") {
  kvpage_test::for_each_small_float([]<class P>() {
    INFO(std::string{P::kName});
    int wrong = 0;
    for (std::uint32_t code = 0; code < (1u << P::kBits); ++code) {
      const float value = P::decode(static_cast<typename P::Storage>(code));
      const std::uint32_t back = encoded<P>(value);
      const bool saturates = std::isinf(value) && !kvpage_test::kDefinition<P>.overflow_to_infinity;
      if (std::isnan(value)) {
        const float again = P::decode(static_cast<typename P::Storage>(back));
        if (!std::isnan(again) || std::signbit(again) != std::signbit(value)) ++wrong;
      } else if (back != (saturates ? code - 1 : code)) {
        ++wrong;
      }
    }
    CHECK(wrong == 0);
  });
  for (int code = -128; code <= 127; ++code) CHECK(Int8::encode(Int8::decode(static_cast<std::int8_t>(code))) == code);
  for (std::uint8_t code = 0; code < 16; ++code) CHECK(Int4::encode(Int4::decode(code)) == code);
}

TEST_CASE("precision.encode.halfway_cases_go_to_the_even_code", "[precision]") {
  kvpage_test::for_each_small_float([]<class P>() {
    INFO(std::string{P::kName});
    const auto table = kvpage_test::finite_values(kvpage_test::kDefinition<P>);
    const std::uint32_t sign = 1u << (P::kBits - 1);
    int wrong = 0;
    for (std::uint32_t low = 0; low + 1 < table.size(); ++low) {
      const auto middle = static_cast<float>((table[low] + table[low + 1]) / 2);
      const std::uint32_t even = low % 2 == 0 ? low : low + 1;
      if (encoded<P>(middle) != even || encoded<P>(-middle) != (even | sign)) ++wrong;
      if (encoded<P>(std::nextafter(middle, 0.0f)) != low) ++wrong;
      if (encoded<P>(std::nextafter(middle, kInf)) != low + 1) ++wrong;
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("precision.encode.random_floats_go_to_the_nearest_code", "[precision]") {
  kvpage_test::for_each_small_float([]<class P>() {
    INFO(std::string{P::kName});
    CHECK(count_wrong<P>(20'240'611, 400'000) == 0);
  });
}

TEST_CASE("precision.encode.many_random_floats_go_to_the_nearest_code", "[precision][night]") {
  if (!kvpage_test::night_run()) kvpage_test::skip("long-running");
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  kvpage_test::for_each_small_float([&]<class P>() {
    INFO(std::string{P::kName});
    CHECK(count_wrong<P>(seed, 100'000'000) == 0);
  });
}

TEST_CASE("precision.encode.overflow_infinity_and_nan", "[precision]") {
  STATIC_REQUIRE(F16::encode(65519.996f) == 0x7BFF);
  STATIC_REQUIRE(F16::encode(65520.0f) == 0x7C00);
  STATIC_REQUIRE(F16::encode(-kInf) == 0xFC00);
  STATIC_REQUIRE(BF16::encode(0x1.fffffep127f) == 0x7F80);
  STATIC_REQUIRE(BF16::encode(0x1.fefffep127f) == 0x7F7F);
  STATIC_REQUIRE(Fp8E4M3::encode(464.0f) == 0x7E);
  STATIC_REQUIRE(Fp8E4M3::encode(kInf) == 0x7E);
  STATIC_REQUIRE(Fp8E4M3::encode(-1e30f) == 0xFE);
  STATIC_REQUIRE(Fp8E5M2::encode(61440.0f) == 0x7B);
  STATIC_REQUIRE(Fp8E5M2::encode(-kInf) == 0xFB);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(F16::encode(nan) == 0x7E00);
  CHECK(F16::encode(std::bit_cast<float>(0xFF80'0001u)) == 0xFE00);  // the payload bits that fit are none: still NaN
  CHECK(BF16::encode(std::bit_cast<float>(0x7F80'0001u)) == 0x7FC0);
  CHECK(Fp8E4M3::encode(nan) == 0x7F);
  CHECK(Fp8E4M3::encode(-nan) == 0xFF);
  CHECK(Fp8E5M2::encode(nan) == 0x7E);
  CHECK(bits_of(F32::encode(std::bit_cast<float>(0x7F80'0001u))) == 0x7F80'0001u);
}

TEST_CASE("precision.encode.underflow_keeps_the_sign", "[precision]") {
  kvpage_test::for_each_small_float([]<class P>() {
    INFO(std::string{P::kName});
    CHECK(encoded<P>(-0.0f) == 1u << (P::kBits - 1));
    if (P::kBits == 16 && P::kMaxFinite > 65504.0f) return;  // as wide an exponent as the float: its least value stays
    CHECK(encoded<P>(std::numeric_limits<float>::denorm_min()) == 0);
    CHECK(encoded<P>(-std::numeric_limits<float>::denorm_min()) == 1u << (P::kBits - 1));
  });
  STATIC_REQUIRE(F16::encode(0x1p-25f) == 0);  // halfway to the least subnormal: zero is even
  STATIC_REQUIRE(F16::encode(0x1.000002p-25f) == 1);
}

TEST_CASE("precision.encode.integer_codes_round_to_even_and_saturate", "[precision]") {
  for (int i = -40'000; i <= 40'000; ++i) {
    const float value = static_cast<float>(i) / 128.0f;
    const double nearest = std::nearbyint(static_cast<double>(value));
    if (Int8::encode(value) != static_cast<int>(std::clamp(nearest, -128.0, 127.0))) FAIL("8 bits: " << value);
    if (Int4::decode(Int4::encode(value)) != static_cast<float>(std::clamp(nearest, -8.0, 7.0))) FAIL("4 bits: " << value);
  }
  STATIC_REQUIRE(Int8::encode(2.5f) == 2);
  STATIC_REQUIRE(Int8::encode(-3.5f) == -4);
  CHECK(Int8::encode(kInf) == 127);
  CHECK(Int8::encode(-kInf) == -128);
  CHECK(Int8::encode(std::numeric_limits<float>::quiet_NaN()) == 0);
  CHECK(Int4::encode(std::numeric_limits<float>::quiet_NaN()) == 0);
  CHECK(Int4::encode(-1e30f) == 0x8);
}
