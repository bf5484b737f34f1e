/// \file Activations up to the largest float: right within the range of QuantizedGroup, and never a plausible number beyond it.
#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/quant/weight_formats.hpp>

#include <cmath>
#include <limits>

namespace {
using namespace kvpage;
using kvpage_test::Activations;
using kvpage_test::multiply;
using kvpage_test::panel_kernels;

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kScale = 0x1p-20f;  // so small that the products are finite floats

/// A matrix [32, block] of format W, every weight kScale * (level(code) - offset) + minimum.
template <PanelWeight W>
std::vector<std::byte> constant_panel(std::uint8_t code, float minimum) {
  PanelBlock block{};
  constexpr bool kSuper = W::kPanel.has_super_scale();
  for (int i = 0; i < W::kPanel.block; ++i) block.codes[i] = code;
  for (int g = 0; g < W::kPanel.groups(); ++g) {
    block.scale[g] = kSuper ? 1.0f : kScale;
    block.minimum[g] = kSuper ? 1.0f : minimum;
  }
  block.super_scale = kScale;
  block.super_minimum = minimum;
  std::vector<std::byte> step(static_cast<std::size_t>(panel_kernels(kWeightFormatInfo<W>).step_bytes));
  for (int row = 0; row < kPanelRows; ++row) detail::PanelCodec<W::kPanel>::write(block, row, step.data());
  return step;
}

/// Rows of 1, `x`, -`x`, 1 times such a matrix, on every instruction set: check(row, output, what the row of a 1 gives).
template <PanelWeight W, class Check>
void check_rows(float x, float minimum, const Check& check) {
  constexpr std::uint8_t kCode = 3;
  constexpr std::int64_t kCols = W::kPanel.block;
  const auto step = constant_panel<W>(kCode, minimum);
  const PackedWeight weight{step.data(), kPanelRows, kCols, &panel_kernels(kWeightFormatInfo<W>)};
  std::vector<float> values(4 * kCols, 1.0f);
  std::fill(values.begin() + kCols, values.begin() + 2 * kCols, x);
  std::fill(values.begin() + 2 * kCols, values.begin() + 3 * kCols, -x);
  const Activations activations(4, kCols, std::move(values));
  const int level = W::kPanel.has_levels ? W::kPanel.levels[kCode] : kCode;
  const float unit = static_cast<float>(kCols) * (static_cast<float>(level - W::kPanel.offset) * kScale + minimum);
  for (const Isa isa : kvpage_test::runnable_isas()) {
    Cpu cpu({.num_threads = 1, .isa = isa});
    const auto out = multiply(cpu, weight, activations, 0, 4);
    for (std::size_t i = 0; i < out.size(); ++i) {
      CAPTURE(W::kName, isa_name(isa), x, minimum, i, out[i]);
      check(i / kPanelRows, out[i], unit);
    }
  }
}

/// What no overflow has touched.
void check_right(std::size_t row, float out, float unit, float x) {
  const float factor = row == 1 ? x : row == 2 ? -x : 1.0f;
  REQUIRE(std::fabs(out / factor - unit) <= 1e-5f * std::fabs(unit));
}
}  // namespace

TEST_CASE("gemm.packed.activations_up_to_2_to_the_122_give_finite_products", "[gemm]") {
  for_each_type(WeightFormats{}, [&]<class W>() {
    if constexpr (PanelWeight<W>) {
      for (const float minimum : {0.0f, kScale}) {
        if (minimum != 0.0f && !W::kPanel.has_minimum) continue;
        check_rows<W>(0x1p122f, minimum, [](std::size_t row, float out, float unit) { check_right(row, out, unit, 0x1p122f); });
      }
    }
  });
}

TEST_CASE("gemm.packed.larger_activations_are_right_or_plainly_wrong", "[gemm]") {
  for_each_type(WeightFormats{}, [&]<class W>() {
    if constexpr (PanelWeight<W>) {
      for (const float minimum : {0.0f, kScale}) {
        if (minimum != 0.0f && !W::kPanel.has_minimum) continue;
        check_rows<W>(kLargest, minimum, [](std::size_t row, float out, float unit) {
          const bool sum_overflows = W::kPanel.has_minimum && (row == 1 || row == 2);
          if (sum_overflows) REQUIRE_FALSE(std::isfinite(out));
          else check_right(row, out, unit, kLargest);
        });
      }
    }
  });
}
