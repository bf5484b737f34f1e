#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/no_scale.hpp"
#include "support/random_floats.hpp"

#include <kvpage/kernels/activation/cpu.hpp>
#include <kvpage/kernels/activation/reference.hpp>

#include <cmath>

namespace {
using namespace kvpage;
using kvpage_test::random_floats;

std::vector<float> run_glu(const std::vector<float>& gate, const std::vector<float>& up, std::int64_t rows, std::int64_t dim,
                           GateActivation activation, Isa isa, int num_threads) {
  Cpu cpu({.num_threads = num_threads, .isa = isa});
  std::vector<float> out(gate.size());
  REQUIRE(glu(cpu, {gate.data(), dim, up.data(), dim, out.data(), dim, rows, dim, activation}).ok());
  return out;
}
}  // namespace

TEST_CASE("activation.glu_gives_the_same_bits_on_every_path_near_the_double_reference", "[activation]") {
  for (const auto activation : {GateActivation::kSilu, GateActivation::kGeluTanh}) {
    for (const std::int64_t dim : {1, 16, 17, 96, 1536, 4101}) {
      CAPTURE(static_cast<int>(activation), dim);
      const auto gate = random_floats(3 * dim, 5, -9.0f, 9.0f);
      const auto up = random_floats(3 * dim, 6, -2.0f, 2.0f);
      std::vector<float> expected(gate.size());
      REQUIRE(reference::glu({gate.data(), dim, up.data(), dim, expected.data(), dim, 3, dim, activation}).ok());
      const auto generic = run_glu(gate, up, 3, dim, activation, Isa::kGeneric, 1);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(std::fabs(generic[i] - expected[i]) <= 1e-6f * std::fabs(expected[i]) + 1e-9f);
      }
      for (const Isa isa : kvpage_test::runnable_isas()) {
        REQUIRE(kvpage_test::same_bits(run_glu(gate, up, 3, dim, activation, isa, 3), generic));
      }
    }
  }
}

TEST_CASE("activation.glu_in_place", "[activation]") {
  const auto gate = random_floats(200, 7);
  const auto up = random_floats(200, 8);
  const auto expected = run_glu(gate, up, 2, 100, GateActivation::kSilu, Isa::kGeneric, 1);
  Cpu cpu({.num_threads = 1});
  auto x = gate;
  REQUIRE(glu(cpu, {x.data(), 100, up.data(), 100, x.data(), 100, 2, 100, GateActivation::kSilu}).ok());
  REQUIRE(kvpage_test::same_bits(x, expected));
  x = up;
  REQUIRE(glu(cpu, {gate.data(), 100, x.data(), 100, x.data(), 100, 2, 100, GateActivation::kSilu}).ok());
  REQUIRE(kvpage_test::same_bits(x, expected));
}

TEST_CASE("activation.soft_cap_limits_and_keeps_small_values", "[activation]") {
  for (const std::int64_t dim : {1, 17, 5000}) {
    auto x = random_floats(2 * dim, 9, -200.0f, 200.0f);
    x[0] = 1e-3f;
    auto expected = x;
    REQUIRE(reference::soft_cap({expected.data(), dim, 2, dim, 30.0f}).ok());
    std::vector<float> generic;
    for (const Isa isa : kvpage_test::runnable_isas()) {
      Cpu cpu({.num_threads = 2, .isa = isa});
      auto out = x;
      REQUIRE(soft_cap(cpu, {out.data(), dim, 2, dim, 30.0f}).ok());
      if (generic.empty()) generic = out;
      REQUIRE(kvpage_test::same_bits(out, generic));
      for (std::size_t i = 0; i < out.size(); ++i) {
        REQUIRE(std::fabs(out[i] - expected[i]) <= 1e-6f * std::fabs(expected[i]));
        REQUIRE(std::fabs(out[i]) <= 30.0f);
      }
    }
  }
}

TEST_CASE("activation.bad_launches_are_refused", "[activation]") {
  Cpu cpu({.num_threads = 1});
  std::vector<float> x(32);
  const GluArgs good{x.data(), 16, x.data(), 16, x.data(), 16, 2, 16, GateActivation::kSilu};
  REQUIRE(glu(cpu, good).ok());
  REQUIRE(glu(cpu, GluArgs{}).ok());  // no rows
  const auto refused = [&](auto change) {
    GluArgs args = good;
    change(args);
    return !glu(cpu, args).ok() && !reference::glu(args).ok();
  };
  REQUIRE(refused([](GluArgs& a) { a.gate = nullptr; }));
  REQUIRE(refused([](GluArgs& a) { a.up_stride = 3; }));
  REQUIRE(refused([](GluArgs& a) { a.out_stride = 15; }));
  REQUIRE(refused([](GluArgs& a) { a.gate_stride = 0; }));
  REQUIRE(refused([](GluArgs& a) { a.dim = -1; }));
  REQUIRE(refused([](GluArgs& a) { a.num_rows = -2; }));
  for (const float value : kvpage_test::kNoScale) {
    CAPTURE(value);
    REQUIRE_FALSE(soft_cap(cpu, {x.data(), 16, 2, 16, value}).ok());
  }
  REQUIRE_FALSE(soft_cap(cpu, {nullptr, 16, 2, 16, 1.0f}).ok());
  REQUIRE_FALSE(soft_cap(cpu, {x.data(), 15, 2, 16, 1.0f}).ok());
}
