/// \file The list of weight formats, and decoding at the edges of each format.
#include "support/catch.hpp"

#include <kvpage/quant/weight_formats.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace kvpage;

/// A block filled with `fill`, and with the 16-bit fields at `offsets` set to `code`.
template <class W>
std::vector<std::byte> block_of(int fill, std::initializer_list<int> offsets = {}, int code = 0) {
  std::vector<std::byte> block(static_cast<std::size_t>(W::kBlockBytes), static_cast<std::byte>(fill));
  for (const int offset : offsets) {
    block[static_cast<std::size_t>(offset)] = static_cast<std::byte>(code & 255);
    block[static_cast<std::size_t>(offset) + 1] = static_cast<std::byte>(code >> 8);
  }
  return block;
}

template <class W>
std::vector<float> decoded(const std::vector<std::byte>& block) {
  std::vector<float> out(static_cast<std::size_t>(W::kBlockElements));
  W::decode(block.data(), out.data());
  return out;
}

/// True if all values of the block are `want`.
template <class W>
bool all_equal(const std::vector<std::byte>& block, double want) {
  for (const float value : decoded<W>(block)) {
    if (static_cast<double>(value) != want) return false;
  }
  return true;
}

constexpr int kOne = 0x3C00;
constexpr int kMaxHalf = 0x7BFF;
constexpr double kMax = 65504.0;

}  // namespace

TEST_CASE("quant.list.names_and_numbers_are_unique_and_found", "[quant]") {
  std::set<std::string_view> names;
  std::set<std::uint32_t> numbers;
  for_each_type(WeightFormats{}, [&]<class W>() {
    INFO(std::string{W::kName});
    CHECK(names.insert(W::kName).second);
    CHECK(numbers.insert(W::kGgufType).second);
    const WeightFormatInfo* info = find_weight_format(W::kGgufType);
    REQUIRE(info == &kWeightFormatInfo<W>);
    CHECK(info->name == W::kName);
    CHECK(info->block_elements == W::kBlockElements);
    CHECK(info->block_bytes == W::kBlockBytes);
  });
  CHECK(names.size() == WeightFormats::kSize);
}

TEST_CASE("quant.list.unknown_types_are_not_found", "[quant]") {
  for (const std::uint64_t type : {4ull, 5ull, 9ull, 15ull, 24ull, 31ull, 40ull, 999ull, 1ull << 32, ~0ull}) {
    CHECK(find_weight_format(type) == nullptr);
  }
  STATIC_REQUIRE(find_weight_format(2) == &kWeightFormatInfo<Q4_0>);
}

TEST_CASE("quant.list.gguf_numbers_are_the_published_ones", "[quant]") {
  STATIC_REQUIRE(F32Weight::kGgufType == 0);
  STATIC_REQUIRE(F16Weight::kGgufType == 1);
  STATIC_REQUIRE(Q4_1::kGgufType == 3);
  STATIC_REQUIRE(Q5_0::kGgufType == 6);
  STATIC_REQUIRE(Q5_1::kGgufType == 7);
  STATIC_REQUIRE(Q8_0::kGgufType == 8);
  STATIC_REQUIRE(Q2_K::kGgufType == 10);
  STATIC_REQUIRE(Q6_K::kGgufType == 14);
  STATIC_REQUIRE(IQ4_NL::kGgufType == 20);
  STATIC_REQUIRE(IQ4_XS::kGgufType == 23);
  STATIC_REQUIRE(BF16Weight::kGgufType == 30);
  STATIC_REQUIRE(TQ1_0::kGgufType == 34);
  STATIC_REQUIRE(MXFP4::kGgufType == 39);
}

TEST_CASE("quant.decode.plain_floats_keep_every_code", "[quant]") {
  int wrong = 0;
  for (int code = 0; code < 65'536; ++code) {
    const std::byte block[2] = {static_cast<std::byte>(code & 255), static_cast<std::byte>(code >> 8)};
    const int exponent = code >> 10 & 31;
    const double fraction = (code & 1023) / 1024.0;
    double want = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0 + fraction, exponent - 15);
    if (exponent == 31) want = fraction == 0.0 ? std::numeric_limits<double>::infinity() : std::nan("");
    float got = 0.0f;
    F16Weight::decode(block, &got);
    const bool equal = std::isnan(want) ? std::isnan(got) : std::abs(static_cast<double>(got)) == want;
    if (!equal || std::signbit(got) != (code >= 0x8000)) ++wrong;
    if (F16Weight::scales_finite(block) != std::isfinite(want)) ++wrong;
    BF16Weight::decode(block, &got);
    if (std::bit_cast<std::uint32_t>(got) != static_cast<std::uint32_t>(code) << 16) ++wrong;
    if (BF16Weight::scales_finite(block) != std::isfinite(got)) ++wrong;
    const std::byte wide[4] = {std::byte{0x12}, std::byte{0x34}, block[0], block[1]};
    F32Weight::decode(wide, &got);
    if (std::bit_cast<std::uint32_t>(got) != (static_cast<std::uint32_t>(code) << 16 | 0x3412u)) ++wrong;
    if (F32Weight::scales_finite(wide) != std::isfinite(got)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("quant.decode.constexpr", "[quant]") {
  constexpr auto kDecode = [] {
    const std::byte block[Q8_0::kBlockBytes] = {std::byte{0x00}, std::byte{0x38}, std::byte{0xFD}};
    float out[Q8_0::kBlockElements]{};
    Q8_0::decode(block, out);
    return out[0];
  };
  STATIC_REQUIRE(kDecode() == -1.5f);
}

TEST_CASE("bug.B47.largest_and_least_codes_with_the_largest_scale", "[quant][bug]") {
  CHECK(all_equal<Q4_0>(block_of<Q4_0>(0x00, {0}, kMaxHalf), -8 * kMax));
  CHECK(all_equal<Q4_0>(block_of<Q4_0>(0xFF, {0}, kMaxHalf), 7 * kMax));
  CHECK(all_equal<Q4_1>(block_of<Q4_1>(0xFF, {0, 2}, kMaxHalf), 16 * kMax));
  CHECK(all_equal<Q5_0>(block_of<Q5_0>(0x00, {0}, kMaxHalf), -16 * kMax));
  CHECK(all_equal<Q5_0>(block_of<Q5_0>(0xFF, {0}, kMaxHalf), 15 * kMax));
  CHECK(all_equal<Q5_1>(block_of<Q5_1>(0xFF, {0, 2}, kMaxHalf), 32 * kMax));
  CHECK(all_equal<Q8_0>(block_of<Q8_0>(0x80, {0}, kMaxHalf), -128 * kMax));
  CHECK(all_equal<Q8_0>(block_of<Q8_0>(0x7F, {0}, kMaxHalf), 127 * kMax));
  CHECK(all_equal<Q2_K>(block_of<Q2_K>(0xFF, {80, 82}, kMaxHalf), (15 * 3 - 15) * kMax));
  CHECK(all_equal<Q3_K>(block_of<Q3_K>(0xFF, {108}, kMaxHalf), 31 * 3 * kMax));
  CHECK(all_equal<Q3_K>(block_of<Q3_K>(0x00, {108}, kMaxHalf), -32 * -4 * kMax));
  CHECK(all_equal<Q4_K>(block_of<Q4_K>(0xFF, {0, 2}, kMaxHalf), (63 * 15 - 63) * kMax));
  CHECK(all_equal<Q5_K>(block_of<Q5_K>(0xFF, {0, 2}, kMaxHalf), (63 * 31 - 63) * kMax));
  CHECK(all_equal<Q6_K>(block_of<Q6_K>(0xFF, {208}, kMaxHalf), -1 * 31 * kMax));
  CHECK(all_equal<Q6_K>(block_of<Q6_K>(0x00, {208}, kMaxHalf), 0.0));
  CHECK(all_equal<IQ4_NL>(block_of<IQ4_NL>(0xFF, {0}, kMaxHalf), 113 * kMax));
  CHECK(all_equal<IQ4_NL>(block_of<IQ4_NL>(0x00, {0}, kMaxHalf), -127 * kMax));
  CHECK(all_equal<IQ4_XS>(block_of<IQ4_XS>(0xFF, {0}, kMaxHalf), 31.0 * 113 * kMax));
  CHECK(all_equal<IQ4_XS>(block_of<IQ4_XS>(0x00, {0}, kMaxHalf), -32.0 * -127 * kMax));
  CHECK(all_equal<TQ1_0>(block_of<TQ1_0>(0x00, {52}, kMaxHalf), -kMax));
  CHECK(all_equal<TQ2_0>(block_of<TQ2_0>(0xAA, {64}, kMaxHalf), kMax));
}

TEST_CASE("bug.B47.power_of_two_scales_over_their_whole_range", "[quant][bug]") {
  for (int e = 0; e < 256; ++e) {
    auto block = block_of<MXFP4>(0x77);  // 6 everywhere
    block[0] = static_cast<std::byte>(e);
    CHECK(MXFP4::scales_finite(block.data()) == (e != 255));
    const float got = decoded<MXFP4>(block)[31];
    const double want = std::ldexp(6.0, e - 127);
    if (e == 255) CHECK(std::isnan(got));
    if (e < 253) CHECK(static_cast<double>(got) == want);
  }
  const auto zero = block_of<MXFP4>(0x00);
  CHECK(all_equal<MXFP4>(zero, 0.0));
}

TEST_CASE("bug.B47.zero_scales_give_exact_zeros", "[quant][bug]") {
  for_each_type(WeightFormats{}, []<class W>() {
    INFO(std::string{W::kName});
    CHECK(W::scales_finite(block_of<W>(0).data()));
    CHECK(all_equal<W>(block_of<W>(0), 0.0));
  });
  CHECK(all_equal<Q6_K>(block_of<Q6_K>(0xFF, {208}, 0x8000), 0.0));  // d = -0
  CHECK(Q6_K::scales_finite(block_of<Q6_K>(0xFF, {208}, 0x8000).data()));
  CHECK(all_equal<Q4_K>(block_of<Q4_K>(0xFF, {0, 2}, 0x8000), 0.0));
  CHECK(all_equal<Q2_K>(block_of<Q2_K>(0x37, {80, 82}, 0), 0.0));
}

TEST_CASE("bug.B47.nan_and_infinite_scales_are_seen", "[quant][bug]") {
  const auto sees = []<class W>(std::initializer_list<int> scale_offsets) {
    INFO(std::string{W::kName});
    CHECK(W::scales_finite(block_of<W>(0x11, scale_offsets, kOne).data()));
    for (const int offset : scale_offsets) {
      for (const int bad : {0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFFFF}) {
        auto block = block_of<W>(0x11, scale_offsets, kOne);
        block[static_cast<std::size_t>(offset)] = static_cast<std::byte>(bad & 255);
        block[static_cast<std::size_t>(offset) + 1] = static_cast<std::byte>(bad >> 8);
        CHECK_FALSE(W::scales_finite(block.data()));
        CHECK_FALSE(std::isfinite(decoded<W>(block)[0]));
      }
    }
  };
  sees.operator()<Q4_0>({0});
  sees.operator()<Q4_1>({0, 2});
  sees.operator()<Q5_0>({0});
  sees.operator()<Q5_1>({0, 2});
  sees.operator()<Q8_0>({0});
  sees.operator()<Q2_K>({80, 82});
  sees.operator()<Q3_K>({108});
  sees.operator()<Q4_K>({0, 2});
  sees.operator()<Q5_K>({0, 2});
  sees.operator()<Q6_K>({208});
  sees.operator()<IQ4_NL>({0});
  sees.operator()<IQ4_XS>({0});
  sees.operator()<TQ1_0>({52});
  sees.operator()<TQ2_0>({64});
}
