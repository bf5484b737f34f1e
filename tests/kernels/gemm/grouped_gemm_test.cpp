/// \file Launches of several matrices, heads of outputs, and argmax: the bits of one launch per matrix and of stored outputs.
#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/kernels/gemm/cpu_argmax.hpp>
#include <kvpage/kernels/gemm/cpu_heads.hpp>
#include <kvpage/quant/weight_formats.hpp>

#include <array>
#include <limits>
#include <vector>

namespace {
using namespace kvpage;
using kvpage_test::Activations;
using kvpage_test::multiply;
using kvpage_test::Packed;
using kvpage_test::RandomWeights;

/// Three matrices of different formats (one of plain floats) and heights that read the same rows.
struct Three {
  static constexpr std::int64_t kCols = 256;
  Packed q, k, v;
  Three(std::int64_t q_rows, std::int64_t kv_rows)
      : q(RandomWeights(kWeightFormatInfo<Q4_K>, q_rows, kCols, 1).view()),
        k(RandomWeights(kWeightFormatInfo<Q8_0>, kv_rows, kCols, 2).view()),
        v(RandomWeights(kWeightFormatInfo<F16Weight>, kv_rows, kCols, 3).view()) {}
  std::array<PackedWeight, 3> weights() const { return {q.weight, k.weight, v.weight}; }
};

/// Room for the outputs of three matrices, some columns apart.
struct Outputs {
  std::array<std::vector<float>, 3> memory;
  std::array<GemmOutput, 3> outputs;
  Outputs(const std::array<PackedWeight, 3>& weights, std::int64_t num_rows, const float* bias) {
    for (std::size_t m = 0; m < 3; ++m) {
      memory[m].assign(static_cast<std::size_t>(num_rows * (weights[m].rows + 5)), -7.0f);
      outputs[m] = {m == 1 ? bias : nullptr, memory[m].data(), weights[m].rows + 5, m == 2};
    }
  }
};

/// What one launch per matrix gives.
Outputs one_by_one(Cpu& cpu, const std::array<PackedWeight, 3>& weights, const GemmInput& input, const float* bias) {
  Outputs outputs(weights, input.num_rows, bias);
  for (std::size_t m = 0; m < 3; ++m) {
    const GemmOutput& to = outputs.outputs[m];
    REQUIRE(gemm(cpu, PackedGemmArgs{weights[m], input, to.bias, to.out, to.out_stride, to.accumulate}).ok());
  }
  return outputs;
}

RowArgmax scan(const std::vector<float>& row) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::size_t best = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!(row[i] < infinity)) return {row[i], static_cast<std::int64_t>(i)};
    if (row[i] > row[best]) best = i;
  }
  return {row[best], static_cast<std::int64_t>(best)};
}
/// So small that with many rows each worker takes rows of its own.
constexpr GemmTuning kSmallBlocks{.block_rows = 4};
}  // namespace

TEST_CASE("gemm.grouped.gives_the_bits_of_one_launch_per_matrix", "[gemm]") {
  const Three three(200, 31);
  const auto weights = three.weights();
  const auto bias = kvpage_test::random_floats(31, 9);
  for (const Isa isa : kvpage_test::runnable_isas()) {
    for (const std::int64_t num_rows : {1, 2, 25, 70}) {
      const Activations activations(num_rows, Three::kCols, 4u);
      Cpu cpu({.num_threads = 3, .isa = isa});
      const auto expected = one_by_one(cpu, weights, activations.input(0, num_rows), bias.data());
      Outputs got(weights, num_rows, bias.data());
      CAPTURE(isa_name(isa), num_rows);
      REQUIRE(gemm(cpu, GroupedGemmArgs{weights, activations.input(0, num_rows), got.outputs}, kSmallBlocks).ok());
      REQUIRE(got.memory == expected.memory);
    }
  }
}

TEST_CASE("gemm.heads.each_is_handed_over_once_and_complete", "[gemm]") {
  // Heads narrower than a panel, across panels, and of several panels.
  for (const auto& [width, q_heads, kv_heads] : {std::array<std::int64_t, 3>{8, 9, 3}, {48, 4, 2}, {64, 9, 3}, {256, 2, 1}}) {
    const Three three(width * q_heads, width * kv_heads);
    const auto weights = three.weights();
    const std::int64_t num_heads = q_heads + 2 * kv_heads;
    for (const std::int64_t num_rows : {1, 7, 100}) {
      const Activations activations(num_rows, Three::kCols, 5u);
      Cpu cpu({.num_threads = 3});
      const auto expected = one_by_one(cpu, weights, activations.input(0, num_rows), nullptr);
      Outputs got(weights, num_rows, nullptr);
      std::vector<std::int32_t> pending(static_cast<std::size_t>(num_rows * num_heads));
      // The epilogue changes what it gets: outputs that were seen incomplete or twice would show.
      const auto negate = [&](const GemmHead& head) {
        const GemmOutput& to = got.outputs[head.matrix];
        for (std::int64_t m = head.first_row; m < head.first_row + head.num_rows; ++m) {
          for (std::int64_t n = head.first_col; n < head.first_col + head.num_cols; ++n) to.out[m * to.out_stride + n] *= -1.0f;
        }
      };
      CAPTURE(width, num_rows);
      REQUIRE(gemm_heads(cpu, {weights, activations.input(0, num_rows), got.outputs}, {width, pending}, negate, kSmallBlocks).ok());
      for (std::size_t m = 0; m < 3; ++m) {
        for (std::size_t i = 0; i < got.memory[m].size(); ++i) {
          const bool is_output = static_cast<std::int64_t>(i) % got.outputs[m].out_stride < weights[m].rows;
          REQUIRE(got.memory[m][i] == (is_output ? -expected.memory[m][i] : -7.0f));
        }
      }
      REQUIRE(pending == std::vector<std::int32_t>(pending.size()));
    }
  }
}

TEST_CASE("gemm.heads.what_cannot_run_writes_nothing", "[gemm]") {
  const Three three(64, 32);
  const auto weights = three.weights();
  const Activations activations(2, Three::kCols, 6u);
  Cpu cpu({.num_threads = 2});
  Outputs out(weights, 2, nullptr);
  const auto before = out.memory;
  std::vector<std::int32_t> pending(8);
  const GroupedGemmArgs args{weights, activations.input(0, 2), out.outputs};
  bool called = false;
  const auto note = [&](const GemmHead&) { called = true; };
  REQUIRE(gemm_heads(cpu, args, {24, pending}, note).code() == StatusCode::kInvalidArgument);
  REQUIRE(gemm_heads(cpu, args, {0, pending}, note).code() == StatusCode::kInvalidArgument);
  REQUIRE(gemm_heads(cpu, args, {32, std::span(pending).first(7)}, note).code() == StatusCode::kCapacity);
  REQUIRE_FALSE(gemm(cpu, GroupedGemmArgs{weights, args.input, std::span(out.outputs).first(2)}).ok());
  out.outputs[2].out = nullptr;
  REQUIRE_FALSE(gemm(cpu, args).ok());
  REQUIRE(out.memory == before);
  REQUIRE_FALSE(called);
}

TEST_CASE("gemm.argmax.finds_what_a_scan_of_the_stored_outputs_finds", "[gemm]") {
  for (const std::int64_t n : {1, 16, 31, 32, 33, 500}) {
    const Packed packed(RandomWeights(kWeightFormatInfo<Q8_0>, n, 64, 8).view());
    const Activations activations(60, 64, 7u);
    for (const Isa isa : kvpage_test::runnable_isas()) {
      for (const std::int64_t num_rows : {1, 2, 60}) {
        Cpu cpu({.num_threads = 3, .isa = isa});
        const auto stored = multiply(cpu, packed.weight, activations, 0, num_rows);
        std::vector<RowArgmax> best(static_cast<std::size_t>(num_rows));
        REQUIRE(gemm_argmax(cpu, {packed.weight, activations.input(0, num_rows), best}).ok());
        for (std::int64_t m = 0; m < num_rows; ++m) {
          const RowArgmax want = scan({stored.begin() + m * n, stored.begin() + (m + 1) * n});
          CAPTURE(n, isa_name(isa), num_rows, m, want.col());
          REQUIRE(best[static_cast<std::size_t>(m)].rank() == want.rank());
        }
      }
    }
  }
}

TEST_CASE("gemm.argmax.ties_go_to_the_lowest_and_a_bad_row_says_where", "[gemm]") {
  // Rows of zeros give equal outputs; NaN activations poison their own row from its first output on.
  const Packed packed(RandomWeights(kWeightFormatInfo<Q4_0>, 100, 64, 3).view());
  auto x = kvpage_test::random_floats(3 * 64, 1);
  std::fill_n(x.begin(), 64, 0.0f);
  x[64 + 5] = std::numeric_limits<float>::quiet_NaN();
  const Activations activations(3, 64, x);
  Cpu cpu({.num_threads = 2});
  std::vector<RowArgmax> best(3);
  REQUIRE(gemm_argmax(cpu, {packed.weight, activations.input(0, 3), best}).ok());
  REQUIRE((!best[0].is_bad() && best[0].col() == 0 && best[0].value() == 0.0f));
  REQUIRE((best[1].is_bad() && best[1].col() == 0));
  REQUIRE_FALSE(best[2].is_bad());
  REQUIRE(gemm_argmax(cpu, {packed.weight, activations.input(0, 3), std::span(best).first(2)}).code() == StatusCode::kCapacity);
}

TEST_CASE("gemm.argmax.the_order_of_outputs_is_total", "[gemm]") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> ascending{-infinity, -3e38f, -1.0f, -1e-45f, 0.0f, 1e-45f, 1.0f, 3e38f};
  RowArgmax last;
  for (const float value : ascending) {
    const RowArgmax now(value, 7);
    REQUIRE(now.rank() > last.rank());
    REQUIRE((!now.is_bad() && now.value() == value && now.col() == 7));
    REQUIRE(RowArgmax(value, 6).rank() > now.rank());
    last = now;
  }
  REQUIRE(RowArgmax(-0.0f, 3).rank() == RowArgmax(0.0f, 3).rank());
  for (const float bad : {infinity, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
    REQUIRE((RowArgmax(bad, 2).is_bad() && RowArgmax(bad, 2).col() == 2 && RowArgmax(bad, 2).rank() > last.rank()));
    const std::array<float, 4> row{1.0f, bad, 5.0f, bad};
    REQUIRE((row_argmax(row.data(), 4).is_bad() && row_argmax(row.data(), 4).col() == 1));
  }
}
