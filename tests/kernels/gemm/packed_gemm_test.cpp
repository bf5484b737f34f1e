#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/kernels/gemm/reference.hpp>

#include <array>
#include <cmath>

namespace {
using namespace kvpage;
using kvpage_test::Activations;
using kvpage_test::multiply;
using kvpage_test::Packed;
using kvpage_test::RandomWeights;

constexpr std::int64_t kMaxRows = 50;
constexpr std::int64_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 50};
constexpr std::int64_t kOutputs[] = {1, 31, 32, 33, 96};

/// The columns of issue and bug reports that the format's blocks allow.
std::vector<std::int64_t> columns(const WeightFormatInfo& format) {
  std::vector<std::int64_t> all;
  for (const std::int64_t k : {32, 64, 96, 256, 512, 576, 2880}) {
    if (k % format.block_elements == 0) all.push_back(k);
  }
  if (format.block_elements == 1) all.push_back(37);
  return all;
}

/// True when rows [first, first + count) of `all` [kMaxRows, n] are `part`.
bool same_rows(const std::vector<float>& part, const std::vector<float>& all, std::int64_t first, std::int64_t n) {
  return std::memcmp(part.data(), all.data() + first * n, part.size() * sizeof(float)) == 0;
}

/// Every row count, at a place that differs from case to case, must give the bits of one generic launch over all rows.
void require_equal_to_generic(Isa isa, std::span<const std::int64_t> row_counts) {
  Cpu generic({.num_threads = 2, .isa = Isa::kGeneric});
  Cpu cpu({.num_threads = 3, .isa = isa});
  std::uint32_t seed = 1;
  std::int64_t launches = 0;
  for (const WeightFormatInfo* format : kvpage_test::packed_formats()) {
    for (const std::int64_t k : columns(*format)) {
      const Activations activations(kMaxRows, k, ++seed);
      for (const std::int64_t n : kOutputs) {
        CAPTURE(isa_name(isa), format->name, n, k);
        const RandomWeights weights(*format, n, k, ++seed);
        const Packed packed(weights.view());
        const auto expected = multiply(generic, packed.weight, activations, 0, kMaxRows);
        for (const std::int64_t m : row_counts) {
          const std::int64_t first = (m * 7 + n) % (kMaxRows - m + 1);
          if (!same_rows(multiply(cpu, packed.weight, activations, first, m), expected, first, n)) {
            CAPTURE(m, first);
            FAIL("rows differ from the generic path");
          }
          ++launches;
        }
      }
    }
  }
  REQUIRE(launches > 300 * static_cast<std::int64_t>(row_counts.size()));
}

/// |x| summed where rounding can happen: bounds of the float law and of the quantisation, from the operands themselves.
struct Oracle {
  double quantized = 0;  // sum with the activations as quantised
  double plain = 0;      // sum with the activations as given
  double magnitude = 0;  // sum of absolute products
  double rounding = 0;   // largest change that quantising x can cause
};

Oracle oracle(const std::vector<float>& w, const Activations& a, std::int64_t row) {
  Oracle o;
  for (std::int64_t k = 0; k < a.cols; ++k) {
    const QuantizedGroup& group = a.quantized.row(row)[k / 32];
    const double weight = static_cast<double>(w[static_cast<std::size_t>(k)]);
    const double x = static_cast<double>(a.x[static_cast<std::size_t>(row * a.cols + k)]);
    const double d = static_cast<double>(group.d);
    o.quantized += weight * d * group.q[k % 32];
    o.plain += weight * x;
    o.magnitude += std::fabs(weight) * (std::fabs(x) + d);
    o.rounding += std::fabs(weight) * d * 0.50001;
  }
  return o;
}
}  // namespace

TEST_CASE("gemm.packed.generic_does_not_depend_on_the_rows_beside", "[gemm]") {
  require_equal_to_generic(Isa::kGeneric, std::array<std::int64_t, 4>{1, 7, 24, 25});
}

TEST_CASE("gemm.packed.avx2_equals_generic_bitwise", "[gemm][isa-avx2]") {
  kvpage_test::require_isa(Isa::kAvx2);
  require_equal_to_generic(Isa::kAvx2, kRowCounts);
}

TEST_CASE("gemm.packed.avxvnni_equals_generic_bitwise", "[gemm][isa-avxvnni]") {
  kvpage_test::require_isa(Isa::kAvxVnni);
  require_equal_to_generic(Isa::kAvxVnni, kRowCounts);
}

TEST_CASE("gemm.packed.avx512vnni_equals_generic_bitwise", "[gemm][isa-avx512vnni]") {
  kvpage_test::require_isa(Isa::kAvx512Vnni);
  require_equal_to_generic(Isa::kAvx512Vnni, kRowCounts);
}

TEST_CASE("gemm.packed.results_lie_within_the_bounds_of_a_double_oracle", "[gemm]") {
  Cpu cpu({.num_threads = 2});
  std::uint32_t seed = 77;
  for (const WeightFormatInfo* format : kvpage_test::packed_formats()) {
    for (const std::int64_t k : columns(*format)) {
      constexpr std::int64_t kRows = 3, kOut = 33;
      CAPTURE(format->name, k);
      const Activations activations(kRows, k, ++seed);
      const RandomWeights weights(*format, kOut, k, ++seed);
      const Packed packed(weights.view());
      const auto out = multiply(cpu, packed.weight, activations, 0, kRows);
      std::vector<float> w(static_cast<std::size_t>(k));
      for (std::int64_t n = 0; n < kOut; ++n) {
        weights.view().decode_row(n, w.data());
        for (std::int64_t m = 0; m < kRows; ++m) {
          const Oracle o = oracle(w, activations, m);
          const double got = static_cast<double>(out[static_cast<std::size_t>(m * kOut + n)]);
          // Each of the at most k / 16 + 8 roundings of a chain is relative to a partial sum; minima make those larger than
          // the products of single weights, by at most max|scale * level| against |weight|: a factor of 64 covers it.
          const double law = o.magnitude * 64.0 * 0x1p-24 * static_cast<double>(k / 16 + 8);
          if (packed.weight.kernels->quantized_input) {
            REQUIRE(std::fabs(got - o.quantized) <= law);
            REQUIRE(std::fabs(got - o.plain) <= law + o.rounding);
          } else {
            REQUIRE(std::fabs(got - o.plain) <= o.magnitude * 0x1p-24 * static_cast<double>(k + 2));
          }
        }
      }
    }
  }
}

TEST_CASE("bug.B37.gemm_rows_keep_their_bits_in_any_batch_cut_and_crew", "[gemm]") {
  constexpr std::int64_t kRows = 96, kCols = 768, kOut = 200;
  const Activations activations(kRows, kCols, 5u);
  for (const WeightFormatInfo* format : kvpage_test::packed_formats()) {
    const RandomWeights weights(*format, kOut, kCols, 6);
    const Packed packed(weights.view());
    Cpu one({.num_threads = 1});
    const auto expected = multiply(one, packed.weight, activations, 0, kRows);
    std::mt19937 rng(7);
    for (const int num_threads : {1, 2, 3, 5}) {
      Cpu cpu({.num_threads = num_threads});
      for (int round = 0; round < 12; ++round) {
        const std::int64_t m = round == 0 ? kRows : 1 + static_cast<std::int64_t>(rng() % 40);
        const std::int64_t first = static_cast<std::int64_t>(rng() % static_cast<std::uint32_t>(kRows - m + 1));
        const GemmTuning tuning{.block_rows = 1 + static_cast<std::int64_t>(rng() % 48),
                                .pass_bytes = 64 << rng() % 12,
                                .chunk_panels = 1 + static_cast<std::int64_t>(rng() % 9),
                                .few_rows_panels = 1 + static_cast<std::int64_t>(rng() % 5)};
        CAPTURE(format->name, num_threads, m, first, tuning.block_rows, tuning.pass_bytes);
        REQUIRE(same_rows(multiply(cpu, packed.weight, activations, first, m, tuning), expected, first, kOut));
      }
    }
  }
}
