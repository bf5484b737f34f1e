/// \file Every code of every small format decodes to the value that the definition gives.
#include "precision/definition.hpp"
#include "support/catch.hpp"

#include <bit>
#include <set>
#include <string>

namespace {

using namespace kvpage;

bool same_value(float got, double want) {
  if (std::isnan(want)) return std::isnan(got);
  return static_cast<double>(got) == want && std::signbit(got) == std::signbit(want);
}

}  // namespace

TEST_CASE("precision.decode.every_float_code_matches_the_definition", "[precision]") {
  int formats = 0;
  kvpage_test::for_each_small_float([&]<class P>() {
    INFO(std::string{P::kName});
    int wrong = 0;
    for (std::uint32_t code = 0; code < (1u << P::kBits); ++code) {
      const float got = P::decode(static_cast<typename P::Storage>(code));
      if (!same_value(got, kvpage_test::defined_value(kvpage_test::kDefinition<P>, code))) ++wrong;
    }
    CHECK(wrong == 0);
    ++formats;
  });
  CHECK(formats == 4);
}

TEST_CASE("precision.decode.nan_keeps_sign_and_payload", "[precision]") {
  CHECK(std::bit_cast<std::uint32_t>(F16::decode(0xFE01)) == 0xFFC0'2000u);
  CHECK(std::bit_cast<std::uint32_t>(BF16::decode(0x7F81)) == 0x7F81'0000u);
  CHECK(std::signbit(Fp8E4M3::decode(0xFF)));
  CHECK(std::isnan(Fp8E4M3::decode(0xFF)));
  CHECK_FALSE(std::signbit(Fp8E4M3::decode(0x7F)));
}

TEST_CASE("precision.decode.every_integer_code_is_its_value", "[precision]") {
  for (int value = -128; value <= 127; ++value) CHECK(Int8::decode(static_cast<std::int8_t>(value)) == static_cast<float>(value));
  for (int value = -8; value <= 7; ++value) {
    const auto code = static_cast<std::uint8_t>(value & 15);
    CHECK(Int4::decode(code) == static_cast<float>(value));
    CHECK(Int4::decode(static_cast<std::uint8_t>(code | 0xA0)) == static_cast<float>(value));
  }
}

TEST_CASE("precision.decode.well_known_values", "[precision]") {
  STATIC_REQUIRE(F32::decode(0.1f) == 0.1f);
  STATIC_REQUIRE(F16::decode(0x3C00) == 1.0f);
  STATIC_REQUIRE(F16::decode(0x7BFF) == 65504.0f);
  STATIC_REQUIRE(F16::decode(0x0001) == 0x1p-24f);
  STATIC_REQUIRE(BF16::decode(0x3F80) == 1.0f);
  STATIC_REQUIRE(Fp8E4M3::decode(0x7E) == 448.0f);
  STATIC_REQUIRE(Fp8E4M3::decode(0x01) == 0x1p-9f);
  STATIC_REQUIRE(Fp8E5M2::decode(0x7B) == 57344.0f);
  STATIC_REQUIRE(Fp8E5M2::decode(0x01) == 0x1p-16f);
  STATIC_REQUIRE(Int4::decode(0x8) == -8.0f);
}

TEST_CASE("precision.list.names_are_unique_and_facts_agree_with_the_codes", "[precision]") {
  std::set<std::string_view> names;
  for_each_type(Precisions{}, [&]<class P>() {
    INFO(std::string{P::kName});
    CHECK(names.insert(P::kName).second);
    CHECK(P::decode(P::encode(P::kMaxFinite)) == P::kMaxFinite);
    CHECK(P::decode(P::encode(0.0f)) == 0.0f);
    CHECK(static_cast<int>(sizeof(typename P::Storage)) == (P::kBits + 7) / 8);
  });
  CHECK(names.size() == Precisions::kSize);
  kvpage_test::for_each_small_float([&]<class P>() {
    INFO(std::string{P::kName});
    constexpr auto kFormat = kvpage_test::kDefinition<P>;
    CHECK(static_cast<double>(P::kMaxFinite) == kvpage_test::finite_values(kFormat).back());
    CHECK(static_cast<double>(P::kTolerance) == std::ldexp(1.0, -1 - kFormat.mantissa_bits));
    CHECK(P::kBits == 1 + kFormat.exponent_bits + kFormat.mantissa_bits);
    CHECK(P::kShape.exponent_bits == kFormat.exponent_bits);
    CHECK(P::kShape.mantissa_bits == kFormat.mantissa_bits);
    CHECK(P::kShape.bias() == kFormat.bias);
    CHECK(P::kShape.has_infinity() == kFormat.has_infinity);
    CHECK((P::kShape.range == FloatRange::kInfinity) == kFormat.overflow_to_infinity);
    CHECK_FALSE(P::kIsCode);
  });
}
