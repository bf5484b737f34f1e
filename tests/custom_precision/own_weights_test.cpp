/// \file A user's own weight format: packing, products on every instruction set, and the error of its quantisation.
#include "01_custom_precision/nibbles64.hpp"
#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/quant/weight_formats.hpp>

#include <cmath>
#include <fstream>
#include <string>

namespace {
using namespace kvpage;
using own::Nibbles64;
using kvpage_test::Activations;
using kvpage_test::multiply;
using kvpage_test::RandomWeights;

struct PackedOwn {
  AlignedBytes memory;
  PackedWeight weight;
  explicit PackedOwn(const WeightView& view) : memory(*packed_bytes(kPanelKernels<Nibbles64>, view.rows, view.cols)) {
    Cpu cpu({.num_threads = 2});
    weight = *pack_weight<Nibbles64>(cpu, view, memory.span());
  }
};

/// Distance of out[row, n] from the sum in double over decoded weights, and what rounding may cause: the float law's one
/// rounding per group of 32, and half a step of every quantised activation.
void require_near_oracle(const WeightView& view, const Activations& x, const std::vector<float>& out) {
  std::vector<float> w(static_cast<std::size_t>(view.cols));
  for (std::int64_t n = 0; n < view.rows; ++n) {
    view.decode_row(n, w.data());
    for (std::int64_t m = 0; m < x.rows; ++m) {
      double quantized = 0, plain = 0, magnitude = 0, rounding = 0;
      for (std::int64_t k = 0; k < view.cols; ++k) {
        const QuantizedGroup& group = x.quantized.row(m)[k / 32];
        const double weight = static_cast<double>(w[static_cast<std::size_t>(k)]);
        const double given = static_cast<double>(x.x[static_cast<std::size_t>(m * x.cols + k)]);
        const double d = static_cast<double>(group.d);
        quantized += weight * d * group.q[k % 32];
        plain += weight * given;
        magnitude += std::fabs(weight) * (std::fabs(given) + d);
        rounding += std::fabs(weight) * d * 0.50001;
      }
      const double got = static_cast<double>(out[static_cast<std::size_t>(m * view.rows + n)]);
      const double law = magnitude * 0x1p-24 * static_cast<double>(view.cols / 16 + 8);
      REQUIRE(std::fabs(got - quantized) <= law);
      REQUIRE(std::fabs(got - plain) <= law + rounding);
    }
  }
}
}  // namespace

TEST_CASE("custom_precision.weights.no_shipped_format_has_this_group_or_offset", "[custom_precision]") {
  for_each_type(WeightFormats{}, [&]<class W>() {
    if constexpr (PanelWeight<W>) {
      CAPTURE(W::kName);
      CHECK(W::kPanel.group != Nibbles64::kPanel.group);
      CHECK(W::kPanel.offset != Nibbles64::kPanel.offset);
    }
  });
}

TEST_CASE("custom_precision.weights.every_instruction_set_gives_the_oracle_and_the_same_bits", "[custom_precision]") {
  constexpr std::int64_t kMaxRows = 50;
  std::uint32_t seed = 1;
  for (const std::int64_t k : {64, 256, 576, 2880}) {
    const Activations x(kMaxRows, k, ++seed);
    for (const std::int64_t n : {1, 31, 32, 33, 96}) {
      const RandomWeights weights(kWeightFormatInfo<Nibbles64>, n, k, ++seed);
      const PackedOwn packed(weights.view());
      Cpu generic({.num_threads = 2, .isa = Isa::kGeneric});
      const auto expected = multiply(generic, packed.weight, x, 0, kMaxRows);
      require_near_oracle(weights.view(), x, expected);
      for (const Isa isa : kvpage_test::runnable_isas()) {
        Cpu cpu({.num_threads = 2, .isa = isa});
        for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 13, 24, 25, 50}) {
          const std::int64_t first = (m * 7 + n) % (kMaxRows - m + 1);
          CAPTURE(isa_name(isa), n, k, m);
          const auto got = multiply(cpu, packed.weight, x, first, m);
          REQUIRE(std::memcmp(got.data(), expected.data() + first * n, got.size() * sizeof(float)) == 0);
        }
      }
    }
  }
}

TEST_CASE("custom_precision.weights.largest_codes_and_activations_do_not_saturate", "[custom_precision]") {
  constexpr std::int64_t kCols = 128;
  for (const int code : {0x00, 0xFF}) {
    std::vector<std::byte> blocks(34 * kCols / 64, static_cast<std::byte>(code));
    for (std::size_t b = 0; b < blocks.size(); b += 34) blocks[b] = std::byte{0x00}, blocks[b + 1] = std::byte{0x3C};  // 1.0
    const PackedOwn packed(weight_view(kWeightFormatInfo<Nibbles64>, blocks.data(), 1, kCols));
    for (const float value : {127.0f, -127.0f}) {
      const Activations x(1, kCols, std::vector<float>(kCols, value));
      for (const Isa isa : kvpage_test::runnable_isas()) {
        Cpu cpu({.num_threads = 1, .isa = isa});
        CAPTURE(isa_name(isa), code, value);
        REQUIRE(multiply(cpu, packed.weight, x, 0, 1).front() == value * (code == 0 ? -7.0f : 8.0f) * 128.0f);
      }
    }
  }
}

TEST_CASE("custom_precision.weights.packing_keeps_every_weight_and_refuses_infinite_scales", "[custom_precision]") {
  constexpr std::int64_t kRows = 33, kCols = 128;
  RandomWeights weights(kWeightFormatInfo<Nibbles64>, kRows, kCols, 5);
  const PackedOwn packed(weights.view());
  std::vector<float> expected(kCols), got(kCols);
  for (std::int64_t r = 0; r < kRows; ++r) {
    weights.view().decode_row(r, expected.data());
    packed.weight.decode_row(r, got.data());
    REQUIRE(kvpage_test::same_bits(got, expected));
  }
  weights.bytes()[7 * 2 * 34 + 1] = std::byte{0x7C};  // row 7: infinity or NaN
  Cpu cpu({.num_threads = 2});
  const auto refused = pack_weight<Nibbles64>(cpu, weights.view(), packed.memory.span());
  REQUIRE(!refused.has_value());
  REQUIRE(refused.error().value() == 7);
}

TEST_CASE("custom_precision.weights.encode_errs_by_half_a_step_and_clips_nothing", "[custom_precision]") {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    const auto weights = kvpage_test::random_floats(64, seed, -1.0f - static_cast<float>(seed % 3), 1.0f + static_cast<float>(seed % 5));
    std::byte block[34];
    float decoded[64];
    Nibbles64::encode(weights.data(), block);
    Nibbles64::decode(block, decoded);
    const float step = decode_half(static_cast<std::uint16_t>(static_cast<int>(block[0]) | static_cast<int>(block[1]) << 8));
    CAPTURE(seed, step);
    // The scale is rounded to a half: up to 8 steps of 2^-11 may be missing at the ends.
    for (int i = 0; i < 64; ++i) REQUIRE(std::fabs(decoded[i] - weights[static_cast<std::size_t>(i)]) <= step * (0.5f + 8.0f * 0x1p-11f));
  }
  const float zeros[64] = {};
  std::byte block[34];
  float decoded[64];
  Nibbles64::encode(zeros, block);
  Nibbles64::decode(block, decoded);
  for (const float weight : decoded) REQUIRE(weight == 0.0f);
}

TEST_CASE("custom_precision.files.each_is_one_of_at_most_80_lines_without_intrinsics", "[custom_precision]") {
  for (const char* name : {"nibbles64.hpp", "grouped_bytes_kv.hpp"}) {
    std::ifstream file(std::string(KVPAGE_TEST_DATA_DIR) + "/../../examples/01_custom_precision/" + name);
    CAPTURE(name);
    int num_lines = 0;
    for (std::string line; std::getline(file, line); ++num_lines) {
      for (const char* word : {"immintrin", "_mm", "asm", "target(", "Lanes"}) REQUIRE(line.find(word) == std::string::npos);
    }
    REQUIRE(num_lines > 20);
    REQUIRE(num_lines <= 80);
  }
}
