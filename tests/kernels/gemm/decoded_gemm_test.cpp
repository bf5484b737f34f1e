#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/kernels/gemm/cpu_decoded.hpp>
#include <kvpage/kernels/gemm/reference.hpp>
#include <kvpage/quant/weight_formats.hpp>

#include <cmath>

namespace {
using namespace kvpage;
using kvpage_test::random_floats;
using kvpage_test::RandomWeights;

/// Products of the absolute values, the measure of what rounding can do.
double magnitude(const WeightView& weight, std::int64_t n, const float* x) {
  std::vector<float> w(static_cast<std::size_t>(weight.cols));
  weight.decode_row(n, w.data());
  double sum = 0;
  for (std::int64_t k = 0; k < weight.cols; ++k) {
    sum += std::fabs(static_cast<double>(w[static_cast<std::size_t>(k)]) * static_cast<double>(x[k]));
  }
  return sum;
}
}  // namespace

TEST_CASE("gemm.decoded.every_path_gives_the_same_bits_near_the_double_reference", "[gemm]") {
  for_each_type(WeightFormats{}, [&]<class W>() {
    const std::int64_t cols = W::kBlockElements == 1 ? 1501 : 2560;
    constexpr std::int64_t kRows = 67, kOut = 5;
    const RandomWeights weights(kWeightFormatInfo<W>, kOut, cols, 8);
    const auto x = random_floats(kRows * cols, 9);
    const auto bias = random_floats(kOut, 10);
    const auto before = random_floats(kRows * kOut, 11);
    const auto args = [&](float* out, bool accumulate) {
      return GemmArgs{weights.view(), x.data(), cols, kRows, bias.data(), out, kOut, accumulate};
    };
    for (const bool accumulate : {false, true}) {
      auto expected = before;
      REQUIRE(reference::gemm(args(expected.data(), accumulate)).ok());
      std::vector<float> generic;
      for (const Isa isa : kvpage_test::runnable_isas()) {
        Cpu cpu({.num_threads = 2, .isa = isa});
        auto out = before;
        REQUIRE(gemm(cpu, args(out.data(), accumulate)).ok());
        if (generic.empty()) generic = out;
        CAPTURE(W::kName, isa_name(isa), accumulate);
        REQUIRE(kvpage_test::same_bits(out, generic));
      }
      for (std::int64_t i = 0; i < kRows * kOut; ++i) {
        const double products = magnitude(weights.view(), i % kOut, x.data() + i / kOut * cols);
        const double bound = (products + 2) * static_cast<double>(cols) / 16 * 0x1p-24;
        const auto at = static_cast<std::size_t>(i);
        REQUIRE(std::fabs(static_cast<double>(generic[at]) - static_cast<double>(expected[at])) <= bound);
      }
    }
  });
}

TEST_CASE("gemm.decoded.a_rows_bits_do_not_depend_on_its_batch", "[gemm]") {
  constexpr std::int64_t kRows = 130, kOut = 40, kCols = 576;
  const RandomWeights weights(kWeightFormatInfo<Q5_0>, kOut, kCols, 8);
  const auto x = random_floats(kRows * kCols, 9);
  Cpu cpu({.num_threads = 3});
  std::vector<float> all(kRows * kOut);
  REQUIRE(gemm(cpu, {weights.view(), x.data(), kCols, kRows, nullptr, all.data(), kOut, false}).ok());
  for (std::int64_t m = 0; m < kRows; m += 13) {
    std::vector<float> alone(kOut);
    REQUIRE(gemm(cpu, {weights.view(), x.data() + m * kCols, kCols, 1, nullptr, alone.data(), kOut, false}).ok());
    REQUIRE(std::memcmp(alone.data(), all.data() + m * kOut, kOut * sizeof(float)) == 0);
  }
}

TEST_CASE("gemm.decoded.bad_launches_write_nothing", "[gemm]") {
  const RandomWeights weights(kWeightFormatInfo<Q4_0>, 4, 32, 1);
  std::vector<float> x(64), out(8, 3.0f);
  Cpu cpu({.num_threads = 1});
  const GemmArgs good{weights.view(), x.data(), 32, 2, nullptr, out.data(), 4, false};
  const auto refused = [&](auto change) {
    GemmArgs args = good;
    change(args);
    return !gemm(cpu, args).ok() && !reference::gemm(args).ok();
  };
  REQUIRE(refused([](GemmArgs& a) { a.x = nullptr; }));
  REQUIRE(refused([](GemmArgs& a) { a.out = nullptr; }));
  REQUIRE(refused([](GemmArgs& a) { a.x_stride = 31; }));
  REQUIRE(refused([](GemmArgs& a) { a.out_stride = 3; }));
  REQUIRE(refused([](GemmArgs& a) { a.num_rows = -1; }));
  REQUIRE(refused([](GemmArgs& a) { a.weight = {}; }));
  REQUIRE(out == std::vector<float>(8, 3.0f));
}
