#include "exec/simd_probe.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"

#include <kvpage/precision/minifloat.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <random>

namespace {
using kvpage::ProbeInput;

ProbeInput random_input(std::mt19937& rng) {
  static constexpr std::array<float, 12> kSpecial{0.0f,    -0.0f,    INFINITY, -INFINITY, NAN,   1e-40f,
                                                  -1e-40f, 65504.0f, 65520.0f, 6e-8f,     3e38f, 1.0f};
  std::uniform_real_distribution<float> uniform(-3.0f, 3.0f);
  const auto value = [&]() -> float {
    const auto kind = rng() % 4;
    if (kind == 0) return kSpecial[rng() % kSpecial.size()];
    if (kind == 1) return std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    return std::ldexp(uniform(rng), static_cast<int>(rng() % 40) - 20);
  };
  ProbeInput in{};
  for (int i = 0; i < 16; ++i) {
    in.a[i] = value();
    in.b[i] = rng() % 5 == 0 ? in.a[i] : value();
    in.c[i] = value();
    in.small[i] = rng() % 2 == 0 ? static_cast<float>(static_cast<int>(rng() % 400)) * 0.5f - 100.0f : uniform(rng) * 1e6f;
    in.halves[i] = static_cast<std::uint16_t>(rng());
    in.ints[i] = static_cast<std::int32_t>(rng() % 2'000'000) - 1'000'000;
  }
  for (int i = 0; i < 64; ++i) {
    in.bytes[i] = rng() % 8 == 0 ? 255 : static_cast<std::uint8_t>(rng());
    const int x = rng() % 8 == 0 ? 127 : static_cast<int>(rng() % 255) - 127;
    in.signed_bytes[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(x));
  }
  return in;
}

bool same(std::uint32_t x, std::uint32_t y) {
  const auto is_nan = [](std::uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; };
  return x == y || (is_nan(x) && is_nan(y));
}
}  // namespace

TEST_CASE("exec.simd.every_function_gives_the_same_bits_on_every_instruction_set", "[exec]") {
  const unsigned seed = 20240607;
  CAPTURE(seed);
  std::mt19937 rng(seed);
  std::vector<std::uint32_t> expected(4096);
  std::vector<std::uint32_t> actual(4096);
  for (int round = 0; round < 1000; ++round) {
    const ProbeInput in = random_input(rng);
    const std::int64_t count = kvpage_test::kProbes[0](in, expected.data());
    REQUIRE(count > 700);
    for (const kvpage::Isa isa : kvpage_test::runnable_isas()) {
      REQUIRE(kvpage_test::kProbes[static_cast<std::size_t>(isa)](in, actual.data()) == count);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (!same(expected[at], actual[at])) {
          CAPTURE(kvpage::isa_name(isa), round, i, expected[at], actual[at]);
          FAIL("a result differs from generic");
        }
      }
    }
  }
}

TEST_CASE("exec.simd.halves_convert_as_the_precision_codec_does", "[exec]") {
  ProbeInput in{};
  std::vector<std::uint32_t> words(4096);
  constexpr std::size_t kLoadHalfWord = 15 * 16;  // the 16th FloatLanes of probe_floats
  for (std::uint32_t first = 0; first < 65536; first += 16) {
    for (std::uint32_t i = 0; i < 16; ++i) in.halves[i] = static_cast<std::uint16_t>(first + i);
    for (const kvpage::Isa isa : kvpage_test::runnable_isas()) {
      kvpage_test::kProbes[static_cast<std::size_t>(isa)](in, words.data());
      for (std::uint32_t i = 0; i < 16; ++i) {
        const auto expected = std::bit_cast<std::uint32_t>(kvpage::decode_half(static_cast<std::uint16_t>(first + i)));
        if (!same(words[kLoadHalfWord + i], expected)) {
          CAPTURE(kvpage::isa_name(isa), first + i, words[kLoadHalfWord + i], expected);
          FAIL("load_half differs from decode_half");
        }
      }
    }
  }
  SUCCEED("65,536 codes");
}
