#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/kernels/activation/cpu.hpp>
#include <kvpage/quant/weight_formats.hpp>

namespace {
using namespace kvpage;
using kvpage_test::Activations;
using kvpage_test::Packed;
using kvpage_test::RandomWeights;

std::vector<QuantizedGroup> some_groups(std::int64_t rows, std::int64_t cols) {
  return std::vector<QuantizedGroup>(static_cast<std::size_t>(rows * QuantizedRows::groups_for(cols)));
}
}  // namespace

TEST_CASE("gemm.glu.fused_equals_the_four_single_steps_bitwise", "[gemm]") {
  constexpr std::int64_t kCols = 256;
  for (const std::int64_t num_out : {15, 64, 75}) {
    for (const std::int64_t rows : {1, 7, 30}) {
      const RandomWeights gate_weights(kWeightFormatInfo<Q4_K>, num_out, kCols, 1);
      const RandomWeights up_weights(kWeightFormatInfo<Q5_1>, num_out, kCols, 2);
      const Packed gate(gate_weights.view());
      const Packed up(up_weights.view());
      const Activations activations(rows, kCols, kvpage_test::random_floats(rows * kCols, 3, -0.01f, 0.01f));
      for (const auto activation : {GateActivation::kSilu, GateActivation::kGeluTanh}) {
        for (const Isa isa : kvpage_test::runnable_isas()) {
          Cpu cpu({.num_threads = 2, .isa = isa});
          CAPTURE(num_out, rows, static_cast<int>(activation), isa_name(isa));
          const auto g = kvpage_test::multiply(cpu, gate.weight, activations, 0, rows);
          const auto u = kvpage_test::multiply(cpu, up.weight, activations, 0, rows);
          std::vector<float> expected(g.size());
          REQUIRE(glu(cpu, {g.data(), num_out, u.data(), num_out, expected.data(), num_out, rows, num_out, activation}).ok());
          auto expected_groups = some_groups(rows, num_out);
          const QuantizedRows expected_rows{expected_groups.data(), rows, num_out, QuantizedRows::groups_for(num_out)};
          REQUIRE(quantize_rows(cpu, {expected.data(), num_out, rows, expected_rows}).ok());

          std::vector<float> out(g.size());
          auto groups = some_groups(rows, num_out);
          PackedGluArgs args{gate.weight, up.weight, activations.input(0, rows), activation, out.data(), num_out};
          args.quantized_out = {groups.data(), rows, num_out, QuantizedRows::groups_for(num_out)};
          REQUIRE(gemm_glu(cpu, args).ok());
          REQUIRE(kvpage_test::same_bits(out, expected));
          REQUIRE(std::memcmp(groups.data(), expected_groups.data(), groups.size() * sizeof(QuantizedGroup)) == 0);
        }
      }
    }
  }
}

TEST_CASE("gemm.glu.bad_launches_are_refused", "[gemm]") {
  const RandomWeights weights(kWeightFormatInfo<Q4_0>, 64, 32, 1);
  const RandomWeights narrow_weights(kWeightFormatInfo<Q4_0>, 32, 32, 1);
  const Packed packed(weights.view());
  const Packed narrow(narrow_weights.view());
  const Activations activations(2, 32, 3u);
  std::vector<float> out(128, 4.0f);
  auto groups = some_groups(2, 64);
  Cpu cpu({.num_threads = 1});
  PackedGluArgs good{packed.weight, packed.weight, activations.input(0, 2), GateActivation::kSilu, out.data(), 64};
  good.quantized_out = {groups.data(), 2, 64, QuantizedRows::groups_for(64)};
  const auto refused = [&](auto change) {
    PackedGluArgs args = good;
    change(args);
    return !gemm_glu(cpu, args).ok();
  };
  REQUIRE(refused([&](PackedGluArgs& a) { a.up = narrow.weight; }));
  REQUIRE(refused([](PackedGluArgs& a) { a.out_stride = 63; }));
  REQUIRE(refused([](PackedGluArgs& a) { a.quantized_out.cols = 32; }));
  REQUIRE(refused([](PackedGluArgs& a) { a.quantized_out.num_rows = 1; }));
  REQUIRE(refused([](PackedGluArgs& a) { a.out = nullptr, a.quantized_out.groups = nullptr; }));
  REQUIRE(out == std::vector<float>(128, 4.0f));
  REQUIRE(gemm_glu(cpu, good).ok());
}

TEST_CASE("gemm.blocks.an_own_epilogue_sees_every_output_once", "[gemm]") {
  const RandomWeights weights(kWeightFormatInfo<Q6_K>, 75, 256, 1);
  const Packed packed(weights.view());
  const Activations activations(60, 256, 3u);
  Cpu cpu({.num_threads = 3});
  const auto expected = kvpage_test::multiply(cpu, packed.weight, activations, 0, 60);
  std::vector<float> out(expected.size(), -1.0f);
  const auto copy = [&](const GemmBlock& block) {
    for (std::int64_t m = 0; m < block.num_rows; ++m) {
      for (std::int64_t n = 0; n < block.num_cols; ++n) {
        out[static_cast<std::size_t>((block.first_row + m) * 75 + block.first_col + n)] += block.sums[m * kPanelRows + n] + 1.0f;
      }
    }
  };
  REQUIRE(gemm_blocks(cpu, packed.weight, activations.input(0, 60), copy).ok());
  for (std::size_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == (expected[i] + 1.0f) - 1.0f);
}
