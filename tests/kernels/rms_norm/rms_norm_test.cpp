#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/no_scale.hpp"
#include "support/random_floats.hpp"

#include <kvpage/kernels/quantize_rows/cpu.hpp>
#include <kvpage/kernels/rms_norm/cpu.hpp>
#include <kvpage/kernels/rms_norm/reference.hpp>

#include <cmath>
#include <cstring>

namespace {
using namespace kvpage;
using kvpage_test::random_floats;

struct Case {
  std::int64_t rows, dim;
  std::vector<float> x, weight, residual;
  Case(std::int64_t r, std::int64_t d, std::uint32_t seed)
      : rows(r), dim(d), x(random_floats(r * (d + 3), seed, -4.0f, 4.0f)), weight(random_floats(d, seed + 1)),
        residual(random_floats(r * d, seed + 2)) {}
  RmsNormArgs args(float* out, bool with_residual) const {
    return {x.data(), dim + 3, weight.data(), with_residual ? residual.data() : nullptr, dim, out, dim, rows, dim, 1e-5f};
  }
};

std::vector<float> run(const Case& c, Isa isa, int num_threads, bool with_residual) {
  Cpu cpu({.num_threads = num_threads, .isa = isa});
  std::vector<float> out(static_cast<std::size_t>(c.rows * c.dim));
  REQUIRE(rms_norm(cpu, c.args(out.data(), with_residual)).ok());
  return out;
}
}  // namespace

TEST_CASE("rms_norm.every_path_gives_the_same_bits_near_the_double_reference", "[rms_norm]") {
  for (const std::int64_t dim : {1, 15, 16, 17, 64, 96, 576, 640, 896, 2880}) {
    for (const bool with_residual : {false, true}) {
      CAPTURE(dim, with_residual);
      const Case c(9, dim, static_cast<std::uint32_t>(dim));
      std::vector<float> expected(static_cast<std::size_t>(c.rows * dim));
      REQUIRE(reference::rms_norm(c.args(expected.data(), with_residual)).ok());
      const auto generic = run(c, Isa::kGeneric, 1, with_residual);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        // A sum of dim squares and a handful of roundings: relative error far below this.
        REQUIRE(std::fabs(generic[i] - expected[i]) <= 2e-6f * (std::fabs(expected[i]) + 4.0f));
      }
      for (const Isa isa : kvpage_test::runnable_isas()) {
        for (const int num_threads : {1, 3}) REQUIRE(kvpage_test::same_bits(run(c, isa, num_threads, with_residual), generic));
      }
    }
  }
}

TEST_CASE("rms_norm.in_place_and_onto_the_residual", "[rms_norm]") {
  const Case c(5, 96, 11);
  Cpu cpu({.num_threads = 2});
  const auto expected = run(c, cpu.isa(), 1, false);
  std::vector<float> x = c.x;
  RmsNormArgs args = c.args(x.data(), false);
  args.x = x.data();
  args.out_stride = args.x_stride;
  REQUIRE(rms_norm(cpu, args).ok());
  for (std::int64_t r = 0; r < 5; ++r) {
    REQUIRE(std::memcmp(x.data() + r * 99, expected.data() + r * 96, 96 * sizeof(float)) == 0);
  }
  const auto with_residual = run(c, cpu.isa(), 1, true);
  std::vector<float> residual = c.residual;
  args = c.args(residual.data(), false);
  args.residual = residual.data();
  args.residual_stride = 96;
  REQUIRE(rms_norm(cpu, args).ok());
  REQUIRE(kvpage_test::same_bits(residual, with_residual));
}

TEST_CASE("rms_norm.a_rows_bits_do_not_depend_on_its_batch", "[rms_norm]") {
  const Case c(40, 576, 21);
  Cpu cpu({.num_threads = 3});
  const auto all = run(c, cpu.isa(), 3, true);
  for (std::int64_t r = 0; r < c.rows; ++r) {
    std::vector<float> alone(576);
    RmsNormArgs args = c.args(alone.data(), true);
    args.x += r * args.x_stride;
    args.residual += r * args.residual_stride;
    args.num_rows = 1;
    REQUIRE(rms_norm(cpu, args).ok());
    REQUIRE(std::memcmp(alone.data(), all.data() + r * 576, 576 * sizeof(float)) == 0);
  }
}

TEST_CASE("rms_norm.a_nan_poisons_its_row_only", "[rms_norm]") {
  Case c(3, 64, 31);
  const auto clean = run(c, Isa::kGeneric, 1, false);
  c.x[67 + 5] = NAN;
  for (const Isa isa : kvpage_test::runnable_isas()) {
    const auto out = run(c, isa, 2, false);
    for (std::size_t i = 0; i < 64; ++i) {
      REQUIRE(out[i] == clean[i]);
      REQUIRE(std::isnan(out[64 + i]));
      REQUIRE(out[128 + i] == clean[128 + i]);
    }
  }
}

TEST_CASE("rms_norm.bad_launches_are_refused", "[rms_norm]") {
  const Case c(2, 16, 1);
  std::vector<float> out(32);
  Cpu cpu({.num_threads = 1});
  const RmsNormArgs good = c.args(out.data(), true);
  REQUIRE(rms_norm(cpu, good).ok());
  const auto refused = [&](auto change) {
    RmsNormArgs args = good;
    change(args);
    return !rms_norm(cpu, args).ok() && !reference::rms_norm(args).ok();
  };
  REQUIRE(refused([](RmsNormArgs& a) { a.num_rows = -1; }));
  REQUIRE(refused([](RmsNormArgs& a) { a.dim = 0; }));
  REQUIRE(refused([](RmsNormArgs& a) { a.x = nullptr; }));
  REQUIRE(refused([](RmsNormArgs& a) { a.weight = nullptr; }));
  REQUIRE(refused([](RmsNormArgs& a) { a.out = nullptr; }));
  REQUIRE(refused([](RmsNormArgs& a) { a.x_stride = 15; }));
  REQUIRE(refused([](RmsNormArgs& a) { a.out_stride = 15; }));
  REQUIRE(refused([](RmsNormArgs& a) { a.residual_stride = 15; }));
  for (const float value : kvpage_test::kNoScale) {
    CAPTURE(value);
    REQUIRE(refused([=](RmsNormArgs& a) { a.eps = value; }));
  }
}

TEST_CASE("rms_norm.quantised_rows_are_those_of_quantize_rows", "[rms_norm]") {
  for (const std::int64_t dim : {1, 16, 31, 32, 48, 512, 576, 2880}) {
    for (const auto& [with_residual, group_scale] : {std::pair(false, GroupScale::kLargest), std::pair(true, GroupScale::kLargest),
                                                     std::pair(false, GroupScale::kSearched), std::pair(true, GroupScale::kSearched)}) {
      const Case c(9, dim, static_cast<std::uint32_t>(dim));
      const std::int64_t row_groups = QuantizedRows::groups_for(dim);
      for (const Isa isa : kvpage_test::runnable_isas()) {
        const auto normed = run(c, isa, 1, with_residual);
        // Both start from the same bytes, so that padding of a row counts too.
        std::vector<QuantizedGroup> expected(static_cast<std::size_t>(9 * row_groups)), got = expected;
        Cpu cpu({.num_threads = 3, .isa = isa});
        REQUIRE(quantize_rows(cpu, {normed.data(), dim, 9, {expected.data(), 9, dim, row_groups}, group_scale}).ok());
        for (const bool keeps_floats : {false, true}) {
          std::vector<float> out(normed.size());
          RmsNormArgs args = c.args(keeps_floats ? out.data() : nullptr, with_residual);
          args.quantized_out = {got.data(), 9, dim, row_groups};
          args.group_scale = group_scale;
          CAPTURE(dim, with_residual, isa_name(isa), keeps_floats);
          REQUIRE(rms_norm(cpu, args).ok());
          REQUIRE(std::memcmp(got.data(), expected.data(), got.size() * sizeof(QuantizedGroup)) == 0);
          if (keeps_floats) REQUIRE(kvpage_test::same_bits(out, normed));
        }
      }
    }
  }
}

TEST_CASE("rms_norm.quantised_rows_of_another_shape_are_refused", "[rms_norm]") {
  const Case c(4, 64, 1);
  std::vector<QuantizedGroup> groups(8);
  Cpu cpu({.num_threads = 1});
  RmsNormArgs args = c.args(nullptr, false);
  REQUIRE_FALSE(rms_norm(cpu, args).ok());
  args.quantized_out = {groups.data(), 3, 64, 2};
  REQUIRE(rms_norm(cpu, args).code() == StatusCode::kCapacity);
  args.quantized_out = {groups.data(), 4, 32, 2};
  REQUIRE(rms_norm(cpu, args).code() == StatusCode::kInvalidArgument);
  args.quantized_out = {groups.data(), 4, 64, 2};
  REQUIRE(rms_norm(cpu, args).ok());
  REQUIRE_FALSE(reference::rms_norm(args).ok());
}

TEST_CASE("rms_norm.without_rows_there_is_nothing_to_do", "[rms_norm]") {
  Cpu cpu({.num_threads = 2});
  REQUIRE(rms_norm(cpu, RmsNormArgs{}).ok());
}
