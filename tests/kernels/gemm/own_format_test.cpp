#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/precision/minifloat.hpp>

#include <cmath>

namespace {
using namespace kvpage;
using kvpage_test::Activations;
using kvpage_test::multiply;

/// A format that no file uses: 64 weights share a half d; nibble i of the block is weight i; d * (q - 5).
struct OwnFormat {
  static constexpr std::string_view kName = "own";
  static constexpr std::uint32_t kGgufType = 9999;
  static constexpr std::int64_t kBlockElements = 64;
  static constexpr std::int64_t kBlockBytes = 34;
  static constexpr PanelShape kPanel{.code_bits = 4, .offset = 5, .block = 64, .group = 64};

  static std::uint8_t code(const std::byte* block, int i) noexcept {
    return static_cast<std::uint8_t>(static_cast<int>(block[2 + i / 2]) >> (i % 2 * 4) & 15);
  }
  static void decode(const std::byte* block, float* out) noexcept {
    for (int i = 0; i < 64; ++i) out[i] = detail::load_half(block) * static_cast<float>(code(block, i) - 5);
  }
  static void unpack(const std::byte* block, PanelBlock& out) noexcept {
    for (int i = 0; i < 64; ++i) out.codes[i] = code(block, i);
    out.scale[0] = detail::load_half(block);
  }
  static bool scales_finite(const std::byte* block) noexcept { return detail::half_is_finite(block); }
};
static_assert(PanelWeight<OwnFormat>);
}  // namespace

TEST_CASE("gemm.own_format.a_shape_and_an_unpack_run_on_every_path", "[gemm]") {
  constexpr std::int64_t kRows = 13, kCols = 320, kOut = 45;
  const kvpage_test::RandomWeights weights(kWeightFormatInfo<OwnFormat>, kOut, kCols, 1);
  const kvpage::AlignedBytes memory(*packed_bytes(kPanelKernels<OwnFormat>, kOut, kCols));
  Cpu packer({.num_threads = 1});
  const auto packed = pack_weight<OwnFormat>(packer, weights.view(), memory.span());
  REQUIRE(packed.has_value());
  REQUIRE(packed->bytes() == 2 * (kCols / 64) * (64 + 1024));  // two panels; a step has 64 bytes of scales, 1,024 of codes
  const Activations activations(kRows, kCols, 2u);
  Cpu generic({.num_threads = 1, .isa = Isa::kGeneric});
  const auto expected = multiply(generic, *packed, activations, 0, kRows);
  for (const Isa isa : kvpage_test::runnable_isas()) {
    Cpu cpu({.num_threads = 2, .isa = isa});
    CAPTURE(isa_name(isa));
    REQUIRE(kvpage_test::same_bits(multiply(cpu, *packed, activations, 0, kRows), expected));
  }
  std::vector<float> w(kCols);
  for (std::int64_t n = 0; n < kOut; ++n) {
    weights.view().decode_row(n, w.data());
    double sum = 0, magnitude = 0;
    for (std::int64_t k = 0; k < kCols; ++k) {
      const QuantizedGroup& group = activations.quantized.row(7)[k / 32];
      const double product = static_cast<double>(w[static_cast<std::size_t>(k)]) * static_cast<double>(group.d) * group.q[k % 32];
      sum += product;
      magnitude += std::fabs(product);
    }
    const double got = static_cast<double>(expected[static_cast<std::size_t>(7 * kOut + n)]);
    REQUIRE(std::fabs(got - sum) <= magnitude * 0x1p-24 * 16);
  }
}
