#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/quant/weight_formats.hpp>

#include <cmath>
#include <string>

namespace {
using namespace kvpage;
using kvpage_test::Packed;
using kvpage_test::panel_kernels;
using kvpage_test::RandomWeights;

Status pack_error(const PanelKernels& kernels, const WeightView& view, std::span<std::byte> dst) {
  Cpu cpu({.num_threads = 1});
  const auto packed = pack_weight(cpu, kernels, view, dst);
  return packed ? Status{} : packed.error();
}

std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte b : bytes) hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
  return hash;
}
}  // namespace

TEST_CASE("gemm.pack.every_shipped_format_has_panels", "[gemm]") {
  for_each_type(WeightFormats{}, [&]<class W>() {
    CAPTURE(W::kName);
    REQUIRE(std::string(kvpage_test::no_panel_reason(kWeightFormatInfo<W>)).empty());
  });
  WeightFormatInfo unknown = kWeightFormatInfo<Q4_0>;
  unknown.name = "another";
  REQUIRE(std::string(kvpage_test::no_panel_reason(unknown)).find("no panel shape") != std::string::npos);
}

TEST_CASE("gemm.pack.rows_decode_to_the_bits_of_the_file", "[gemm]") {
  for (const WeightFormatInfo* format : kvpage_test::packed_formats()) {
    for (const std::int64_t rows : {1, 31, 33, 70}) {
      const std::int64_t cols = format->block_elements * 5;
      CAPTURE(format->name, rows, cols);
      const RandomWeights weights(*format, rows, cols, static_cast<std::uint32_t>(rows));
      const Packed packed(weights.view(), 3);
      std::vector<float> expected(static_cast<std::size_t>(cols));
      std::vector<float> actual(expected.size());
      for (std::int64_t r = 0; r < rows; ++r) {
        weights.view().decode_row(r, expected.data());
        packed.weight.decode_row(r, actual.data());
        for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(actual[i] == expected[i]);
      }
    }
  }
}

TEST_CASE("gemm.pack.panels_are_at_most_a_fifth_larger_than_the_file", "[gemm]") {
  for (const WeightFormatInfo* format : kvpage_test::packed_formats()) {
    const PanelKernels& kernels = panel_kernels(*format);
    CAPTURE(format->name);
    const double file = static_cast<double>(32 * format->block_bytes);
    const double packed = static_cast<double>(kernels.step_bytes);
    REQUIRE(kernels.step_cols == format->block_elements);
    REQUIRE(packed <= file * 1.25);
  }
}

TEST_CASE("gemm.pack.bad_matrices_and_memory_are_refused", "[gemm]") {
  const RandomWeights weights(kWeightFormatInfo<Q4_1>, 40, 64, 1);
  const PanelKernels& kernels = panel_kernels(kWeightFormatInfo<Q4_1>);
  const AlignedBytes memory(*packed_bytes(kernels, 40, 64) + 64);
  const auto exact = memory.span().first(memory.span().size() - 64);
  REQUIRE(pack_error(kernels, weights.view(), exact).ok());
  REQUIRE(pack_error(kernels, weights.view(), exact.first(exact.size() - 1)).code() == StatusCode::kCapacity);
  REQUIRE(pack_error(kernels, weights.view(), memory.span().subspan(16)).code() == StatusCode::kInvalidArgument);
  REQUIRE(pack_error(panel_kernels(kWeightFormatInfo<Q4_0>), weights.view(), exact).code() == StatusCode::kInvalidArgument);
  REQUIRE(pack_error(kernels, WeightView{}, exact).code() == StatusCode::kInvalidArgument);
  WeightView odd = weights.view();
  odd.cols = 48;
  REQUIRE(pack_error(kernels, odd, exact).limit() == 32);
  REQUIRE_FALSE(packed_bytes(kernels, std::int64_t{1} << 40, std::int64_t{1} << 40).has_value());
}

TEST_CASE("bug.B47.packing_reports_the_row_of_a_scale_that_is_not_finite", "[gemm]") {
  struct ScaleField {
    const WeightFormatInfo* format;
    std::size_t offset;
  };
  for (const ScaleField field : {ScaleField{&kWeightFormatInfo<Q6_K>, 208}, {&kWeightFormatInfo<Q4_0>, 0}, {&kWeightFormatInfo<Q4_K>, 2},
                                 {&kWeightFormatInfo<Q8_0>, 0}}) {
    for (const std::byte high_byte : {std::byte{0x7e}, std::byte{0x7c}, std::byte{0xfc}}) {  // NaN, +infinity, -infinity
      RandomWeights weights(*field.format, 70, 512, 3);
      const auto row_bytes = static_cast<std::size_t>(weights.view().row_bytes);
      const std::size_t at = 45 * row_bytes + static_cast<std::size_t>(field.format->block_bytes) + field.offset;
      weights.bytes()[at] = std::byte{0};
      weights.bytes()[at + 1] = high_byte;
      const PanelKernels& kernels = panel_kernels(*field.format);
      const AlignedBytes memory(*packed_bytes(kernels, 70, 512));
      const Status status = pack_error(kernels, weights.view(), memory.span());
      CAPTURE(field.format->name, static_cast<int>(high_byte));
      REQUIRE(status.code() == StatusCode::kInvalidArgument);
      REQUIRE(status.value() == 45);
    }
  }
}

TEST_CASE("bug.B47.zero_and_minus_zero_scales_give_exact_zeros", "[gemm]") {
  const kvpage_test::Activations activations(2, 512, 9u);
  for (const WeightFormatInfo* format : kvpage_test::packed_formats()) {
    if (format->block_elements == 1) continue;
    RandomWeights weights(*format, 33, 512, 4);
    std::fill(weights.bytes().begin(), weights.bytes().end(), std::byte{0});
    if (format == &kWeightFormatInfo<Q4_0> || format == &kWeightFormatInfo<Q5_0> || format == &kWeightFormatInfo<Q8_0>) {
      for (std::size_t at = 1; at < weights.bytes().size(); at += static_cast<std::size_t>(format->block_bytes)) {
        weights.bytes()[at] = std::byte{0x80};  // the leading half becomes -0
      }
    }
    const Packed packed(weights.view());
    for (const Isa isa : kvpage_test::runnable_isas()) {
      Cpu cpu({.num_threads = 1, .isa = isa});
      CAPTURE(format->name, isa_name(isa));
      for (const float out : multiply(cpu, packed.weight, activations, 0, 2)) REQUIRE(out == 0.0f);
    }
  }
}

TEST_CASE("gemm.pack.the_layout_of_a_fixed_matrix_never_changes", "[gemm]") {
  // Files of packed weights depend on it: a new layout needs a new kPanelLayoutVersion, and new values here.
  const auto hash = [](const WeightFormatInfo& format) {
    const RandomWeights weights(format, 40, 512, 12345);
    const Packed packed(weights.view());
    return fnv1a({packed.weight.data, static_cast<std::size_t>(packed.weight.bytes())});
  };
  CHECK(kPanelLayoutVersion == 2);
  CHECK(hash(kWeightFormatInfo<Q4_1>) == 0x6aae030aa6262d8du);
  CHECK(hash(kWeightFormatInfo<Q8_0>) == 0xa0659cbf1ef0e42au);
  CHECK(hash(kWeightFormatInfo<Q5_0>) == 0xd506d7b4daf749f4u);
  CHECK(hash(kWeightFormatInfo<Q6_K>) == 0x917086268d1bb23eu);
  CHECK(hash(kWeightFormatInfo<Q3_K>) == 0x7e888e88c2f2fc9eu);
  CHECK(hash(kWeightFormatInfo<Q4_K>) == 0x12b35aaa891a3d27u);
  CHECK(hash(kWeightFormatInfo<F16Weight>) == 0x697d04247953f142u);
}
