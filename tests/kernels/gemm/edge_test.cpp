#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/quant/weight_formats.hpp>

#include <cmath>
#include <string>

namespace {
using namespace kvpage;
using kvpage_test::Activations;
using kvpage_test::multiply;
using kvpage_test::Packed;
using kvpage_test::panel_kernels;
using kvpage_test::RandomWeights;

/// A matrix [32, block] of format W, every weight with the same code, written as panels without going through a file.
template <PanelWeight W>
std::vector<std::byte> constant_panel(int code, float scale) {
  PanelBlock block{};
  for (int i = 0; i < W::kPanel.block; ++i) block.codes[i] = static_cast<std::uint8_t>(code);
  for (int g = 0; g < W::kPanel.groups(); ++g) block.scale[g] = scale;
  block.super_scale = 1.0f;
  std::vector<std::byte> step(static_cast<std::size_t>(panel_kernels(kWeightFormatInfo<W>).step_bytes));
  for (int row = 0; row < kPanelRows; ++row) detail::PanelCodec<W::kPanel>::write(block, row, step.data());
  return step;
}
}  // namespace

TEST_CASE("gemm.packed.extreme_codes_and_activations_do_not_saturate", "[gemm]") {
  for_each_type(WeightFormats{}, [&]<class W>() {
    if constexpr (PanelWeight<W>) {
      constexpr PanelShape kShape = W::kPanel;
      for (const int code : {0, (1 << kShape.code_bits) - 1, 8 % (1 << kShape.code_bits)}) {
        const auto step = constant_panel<W>(code, 1.0f);
        const PackedWeight weight{step.data(), 32, kShape.block, &panel_kernels(kWeightFormatInfo<W>)};
        const int level = kShape.has_levels ? kShape.levels[static_cast<std::size_t>(code)] : code;
        for (const float x : {127.0f, -127.0f}) {
          const Activations activations(4, kShape.block, std::vector<float>(static_cast<std::size_t>(4 * kShape.block), x));
          for (const Isa isa : kvpage_test::runnable_isas()) {
            Cpu cpu({.num_threads = 1, .isa = isa});
            CAPTURE(W::kName, code, x, isa_name(isa));
            const float expected = static_cast<float>(level - kShape.offset) * x * static_cast<float>(kShape.block);
            for (const float out : multiply(cpu, weight, activations, 0, 4)) REQUIRE(out == expected);
          }
        }
      }
    }
  });
}

TEST_CASE("gemm.packed.a_nan_poisons_its_row_only", "[gemm]") {
  constexpr std::int64_t kRows = 9, kCols = 512, kOut = 40;
  for (const WeightFormatInfo* format : kvpage_test::packed_formats()) {
    const RandomWeights weights(*format, kOut, kCols, 3);
    const Packed packed(weights.view());
    auto x = kvpage_test::random_floats(kRows * kCols, 4);
    const Activations clean(kRows, kCols, x);
    x[4 * kCols + 300] = NAN;
    x[6 * kCols + 511] = INFINITY;
    const Activations poisoned(kRows, kCols, x);
    for (const Isa isa : kvpage_test::runnable_isas()) {
      Cpu cpu({.num_threads = 2, .isa = isa});
      const auto expected = multiply(cpu, packed.weight, clean, 0, kRows);
      const auto out = multiply(cpu, packed.weight, poisoned, 0, kRows);
      for (std::size_t i = 0; i < out.size(); ++i) {
        CAPTURE(format->name, isa_name(isa), i);
        const std::size_t row = i / kOut;
        if (row == 4 || (row == 6 && packed.weight.kernels->quantized_input)) REQUIRE(std::isnan(out[i]));
        else if (row == 6) REQUIRE_FALSE(std::isfinite(out[i]));
        else REQUIRE(out[i] == expected[i]);
      }
    }
  }
}

TEST_CASE("gemm.packed.bias_is_added_then_what_out_held", "[gemm]") {
  constexpr std::int64_t kRows = 5, kCols = 64, kOut = 45;
  const RandomWeights weights(kWeightFormatInfo<Q4_1>, kOut, kCols, 3);
  const Packed packed(weights.view());
  const Activations activations(kRows, kCols, 5u);
  const auto bias = kvpage_test::random_floats(kOut, 6);
  const auto before = kvpage_test::random_floats(kRows * 50, 7);
  for (const Isa isa : kvpage_test::runnable_isas()) {
    Cpu cpu({.num_threads = 2, .isa = isa});
    const auto plain = multiply(cpu, packed.weight, activations, 0, kRows);
    for (const bool accumulate : {false, true}) {
      auto out = before;
      REQUIRE(gemm(cpu, {packed.weight, activations.input(0, kRows), bias.data(), out.data(), 50, accumulate}).ok());
      for (std::int64_t m = 0; m < kRows; ++m) {
        for (std::int64_t n = 0; n < 50; ++n) {
          const auto at = static_cast<std::size_t>(m * 50 + n);
          if (n >= kOut) {
            REQUIRE(out[at] == before[at]);  // the gap between rows is not touched
            continue;
          }
          const float sum = plain[static_cast<std::size_t>(m * kOut + n)] + bias[static_cast<std::size_t>(n)];
          REQUIRE(out[at] == (accumulate ? before[at] + sum : sum));
        }
      }
    }
  }
}

TEST_CASE("gemm.packed.bad_launches_write_nothing", "[gemm]") {
  const RandomWeights weights(kWeightFormatInfo<Q8_0>, 33, 64, 3);
  const Packed packed(weights.view());
  const RandomWeights plain_weights(kWeightFormatInfo<F16Weight>, 33, 64, 3);
  const Packed plain(plain_weights.view());
  const Activations activations(2, 64, 5u);
  std::vector<float> out(66, 9.0f);
  Cpu cpu({.num_threads = 2});
  const PackedGemmArgs good{packed.weight, activations.input(0, 2), nullptr, out.data(), 33, false};
  const auto refused = [&](auto change) {
    PackedGemmArgs args = good;
    change(args);
    return gemm(cpu, args).code() == StatusCode::kInvalidArgument;
  };
  REQUIRE(refused([](PackedGemmArgs& a) { a.out = nullptr; }));
  REQUIRE(refused([](PackedGemmArgs& a) { a.out_stride = 32; }));
  REQUIRE(refused([](PackedGemmArgs& a) { a.input.quantized = {}; }));
  REQUIRE(refused([](PackedGemmArgs& a) { a.input.quantized.cols = 32; }));
  REQUIRE(refused([](PackedGemmArgs& a) { a.input.num_rows = 3; }));
  REQUIRE(refused([](PackedGemmArgs& a) { a.input.num_rows = -1; }));
  REQUIRE(refused([](PackedGemmArgs& a) { a.weight = {}; }));
  REQUIRE(refused([&](PackedGemmArgs& a) {
    a.weight = plain.weight;
    a.input.x = nullptr;
  }));
  REQUIRE(refused([&](PackedGemmArgs& a) {
    a.weight = plain.weight;
    a.input.x_stride = 63;
  }));
  REQUIRE(out == std::vector<float>(66, 9.0f));
  PackedGemmArgs nothing = good;
  nothing.input.num_rows = 0;
  REQUIRE(gemm(cpu, nothing).ok());
  REQUIRE(out == std::vector<float>(66, 9.0f));
}
