#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/no_scale.hpp"
#include "support/random_floats.hpp"

#include <kvpage/kernels/rope/cpu.hpp>
#include <kvpage/kernels/rope/frequencies.hpp>
#include <kvpage/kernels/rope/reference.hpp>

namespace {
using namespace kvpage;
using kvpage_test::random_floats;

std::vector<float> frequencies(const RopeScaling& scaling, std::int64_t dim) {
  std::vector<float> out(static_cast<std::size_t>(dim / 2));
  rope_frequencies(scaling, dim, out);
  return out;
}

/// How many pairs kept their frequency, were blended, or were divided by the factor.
struct Bands {
  int kept = 0, blended = 0, divided = 0;
  bool operator==(const Bands&) const = default;
};

Bands count_bands(const RopeScaling& scaling, std::int64_t dim) {
  const auto plain = frequencies({.theta = scaling.theta}, dim);
  const auto scaled = frequencies(scaling, dim);
  Bands bands;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const float divided = static_cast<float>(static_cast<double>(plain[i]) / scaling.factor);
    if (scaled[i] == plain[i]) ++bands.kept;
    else if (std::fabs(scaled[i] - divided) <= 1e-6f * divided) ++bands.divided;
    else ++bands.blended;
  }
  return bands;
}
}  // namespace

TEST_CASE("bug.B46.frequency_bands_are_used", "[rope]") {
  const RopeScaling scaling{.theta = 500'000.0, .kind = RopeScalingKind::kFrequencyBands, .factor = 32.0, .original_context = 8192.0};
  const auto scaled = frequencies(scaling, 64);
  REQUIRE(count_bands(scaling, 64) == Bands{15, 3, 14});
  REQUIRE(scaled[16] == Approx(4.295568e-4).epsilon(1e-6));
  REQUIRE(scaled[31] == Approx(9.418307e-8).epsilon(1e-6));
  RopeScaling wide = scaling;
  wide.factor = 8.0;
  REQUIRE(count_bands(wide, 128) == Bands{29, 6, 29});
}

TEST_CASE("rope.frequencies_of_the_other_scalings", "[rope]") {
  const auto plain = frequencies({.theta = 10'000.0}, 64);
  REQUIRE(plain[0] == 1.0f);
  REQUIRE(plain[16] == Approx(0.01).epsilon(1e-6));
  const auto linear = frequencies({.theta = 10'000.0, .kind = RopeScalingKind::kLinear, .factor = 8.0}, 64);
  for (std::size_t i = 0; i < plain.size(); ++i) REQUIRE(linear[i] == Approx(plain[i] / 8).epsilon(1e-6));
  const RopeScaling yarn{.theta = 10'000.0, .kind = RopeScalingKind::kYarn, .factor = 4.0, .original_context = 4096.0};
  const auto by_parts = frequencies(yarn, 128);
  const auto plain128 = frequencies({.theta = 10'000.0}, 128);
  // 32 rotations in 4,096 positions happen at pair 20.9, one rotation at pair 45.03 of 64 (YaRN, section 3.2).
  for (std::size_t i = 0; i <= 20; ++i) REQUIRE(by_parts[i] == plain128[i]);
  for (std::size_t i = 46; i < 64; ++i) REQUIRE(by_parts[i] == Approx(plain128[i] / 4).epsilon(1e-6));
  for (std::size_t i = 21; i < 46; ++i) REQUIRE((by_parts[i] < plain128[i] && by_parts[i] > plain128[i] / 4));
  REQUIRE(rope_magnitude(yarn) == Approx(0.1 * std::log(4.0) + 1.0));
  REQUIRE(rope_magnitude({.theta = 10'000.0}) == 1.0f);
  const float factors[] = {1.0f, 2.0f, 4.0f, 8.0f};
  const auto divided = frequencies({.theta = 10'000.0, .factors = factors}, 8);
  const auto plain8 = frequencies({.theta = 10'000.0}, 8);
  for (std::size_t i = 0; i < 4; ++i) REQUIRE(divided[i] == Approx(plain8[i] / factors[i]));
}

TEST_CASE("rope.bad_scalings_are_refused", "[rope]") {
  const auto refused = [](const RopeScaling& scaling, std::int64_t dim) {
    std::vector<float> out(static_cast<std::size_t>(dim > 0 ? dim / 2 : 0));
    try {
      rope_frequencies(scaling, dim, out);
    } catch (const ConfigError&) {
      return true;
    }
    return false;
  };
  REQUIRE_FALSE(refused({}, 64));
  REQUIRE(refused({}, 63));
  REQUIRE(refused({}, 0));
  REQUIRE(refused({.theta = 0.0}, 64));
  REQUIRE(refused({.kind = RopeScalingKind::kLinear, .factor = 0.0}, 64));
  REQUIRE(refused({.kind = RopeScalingKind::kFrequencyBands, .factor = 8.0}, 64));
  REQUIRE(refused({.kind = RopeScalingKind::kYarn, .factor = 8.0}, 64));
  REQUIRE(refused({.kind = RopeScalingKind::kFrequencyBands, .factor = 8.0, .original_context = 8192, .low_freq_factor = 4.0}, 64));
  const float one_factor[] = {1.0f};
  REQUIRE(refused({.factors = one_factor}, 64));
  REQUIRE(refused({.kind = RopeScalingKind::kYarn, .factor = 8.0, .original_context = 8192, .beta_fast = 1.0}, 64));
  for (const float value : kvpage_test::kNoScale) {
    CAPTURE(value);
    const auto wide = static_cast<double>(value);
    REQUIRE(refused({.theta = wide}, 64));
    REQUIRE(refused({.kind = RopeScalingKind::kLinear, .factor = wide}, 64));
    REQUIRE(refused({.kind = RopeScalingKind::kYarn, .factor = 8.0, .original_context = wide}, 64));
    REQUIRE(refused({.kind = RopeScalingKind::kYarn, .factor = 8.0, .original_context = 8192, .beta_slow = wide}, 64));
    REQUIRE(refused({.kind = RopeScalingKind::kYarn, .factor = 8.0, .original_context = 8192, .magnitude_scale = wide}, 64));
    const float factors[] = {1.0f, value};
    REQUIRE(refused({.factors = factors}, 4));
  }
}

TEST_CASE("rope.sin_cos_is_right_far_below_a_floats_rounding", "[rope]") {
  double worst = 0;
  for (double angle = 0; angle < 134'217'728.0; angle = angle * 1.00001 + 0.0137) {
    const SinCos value = sin_cos(angle);
    worst = std::max({worst, std::fabs(value.sin - std::sin(angle)), std::fabs(value.cos - std::cos(angle))});
  }
  REQUIRE(worst < 1e-10);
}

TEST_CASE("rope.every_path_gives_the_same_bits_near_the_double_reference", "[rope]") {
  const std::vector<std::int64_t> positions{0, 1, 31, 4095, 100'000, 7, 7, 123'456'789};
  const auto num_tokens = static_cast<std::int64_t>(positions.size());
  for (const auto pairing : {RopePairing::kHalf, RopePairing::kAdjacent}) {
    for (const std::int64_t rotary_dim : {2, 34, 64, 80}) {
      CAPTURE(static_cast<int>(pairing), rotary_dim);
      const auto inv_freq = frequencies({.theta = 10'000.0}, rotary_dim);
      const auto x = random_floats(num_tokens * 250, 3);
      const auto args = [&](float* data) {
        return RopeArgs{data, 250, num_tokens, 3, 80, rotary_dim, positions.data(), inv_freq.data(), pairing, 1.25f};
      };
      auto expected = x;
      REQUIRE(reference::rope(args(expected.data())).ok());
      auto unchecked = x;
      REQUIRE(reference::rope(args(unchecked.data()), kTablesChecked).ok());
      REQUIRE(kvpage_test::same_bits(unchecked, expected));
      std::vector<float> generic;
      for (const Isa isa : kvpage_test::runnable_isas()) {
        Cpu cpu({.num_threads = 2, .isa = isa});
        auto out = x;
        REQUIRE(rope(cpu, args(out.data())).ok());
        if (generic.empty()) generic = out;
        REQUIRE(kvpage_test::same_bits(out, generic));
      }
      for (std::size_t i = 0; i < x.size(); ++i) {
        REQUIRE(std::fabs(generic[i] - expected[i]) <= 1e-6f);
        const std::size_t in_token = i % 250;
        const bool rotated = in_token < 240 && in_token % 80 < static_cast<std::size_t>(rotary_dim);
        if (!rotated) REQUIRE(generic[i] == x[i]);
      }
    }
  }
}

TEST_CASE("rope.a_table_changes_no_bit", "[rope]") {
  const std::vector<std::int64_t> positions{0, 1, 31, 4095, 100'000, 7, 123'456'789, 8, 9};
  const auto num_tokens = static_cast<std::int64_t>(positions.size());
  for (const std::int64_t rotary_dim : {2, 34, 64}) {
    const auto inv_freq = frequencies({.theta = 10'000.0}, rotary_dim);
    const auto x = random_floats(num_tokens * 128, 3);
    for (const Isa isa : kvpage_test::runnable_isas()) {
      for (const auto pairing : {RopePairing::kHalf, RopePairing::kAdjacent}) {
        CAPTURE(rotary_dim, isa_name(isa), static_cast<int>(pairing));
        Cpu cpu({.num_threads = 2, .isa = isa});
        std::vector<float> table(static_cast<std::size_t>(num_tokens * rotary_dim), -1.0f);
        REQUIRE(rope_table(cpu, {positions.data(), num_tokens, inv_freq.data(), rotary_dim, 1.25f, table.data()}).ok());
        auto want = x, got = x;
        RopeArgs args{want.data(), 128, num_tokens, 2, 64, rotary_dim, positions.data(), inv_freq.data(), pairing, 1.25f};
        REQUIRE(rope(cpu, args).ok());
        for (const bool checked : {false, true}) {
          got = x;
          args.x = got.data(), args.table = table.data();
          REQUIRE((checked ? rope(cpu, args, kTablesChecked) : rope(cpu, args)).ok());
          REQUIRE(kvpage_test::same_bits(got, want));
          std::fill(table.begin(), table.end(), -1.0f);
          REQUIRE(rope_table(cpu, {positions.data(), num_tokens, inv_freq.data(), rotary_dim, 1.25f, table.data()}, kTablesChecked).ok());
        }
      }
    }
  }
  Cpu cpu({.num_threads = 1});
  float out[2] = {5, 5};
  const float inv_freq[] = {1.0f};
  const std::int64_t negative = -1;
  CHECK_FALSE(rope_table(cpu, {&negative, 1, inv_freq, 2, 1.0f, out}).ok());
  CHECK_FALSE(rope_table(cpu, {&negative, -1, inv_freq, 2, 1.0f, out}).ok());
  CHECK_FALSE(rope_table(cpu, {positions.data(), 1, inv_freq, 3, 1.0f, out}).ok());
  CHECK_FALSE(rope_table(cpu, {positions.data(), 1, inv_freq, 2, 1.0f, nullptr}).ok());
  CHECK_FALSE(rope_table(cpu, {positions.data(), 1, inv_freq, kMaxRotaryDim + 2, 1.0f, out}).ok());
  for (const float value : kvpage_test::kNoScale) CHECK_FALSE(rope_table(cpu, {positions.data(), 1, inv_freq, 2, value, out}).ok());
  CHECK((out[0] == 5 && out[1] == 5));
}

TEST_CASE("rope.a_token_alone_has_the_bits_it_has_in_a_batch", "[rope]") {
  std::vector<std::int64_t> positions(50);
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int64_t>(i * i);
  const auto inv_freq = frequencies({.theta = 1'000'000.0}, 64);
  const auto x = random_floats(50 * 64, 9);
  Cpu cpu({.num_threads = 3});
  auto all = x;
  REQUIRE(rope(cpu, {all.data(), 64, 50, 1, 64, 64, positions.data(), inv_freq.data()}).ok());
  for (std::int64_t t = 0; t < 50; ++t) {
    std::vector<float> alone(x.begin() + t * 64, x.begin() + (t + 1) * 64);
    REQUIRE(rope(cpu, {alone.data(), 64, 1, 1, 64, 64, &positions[static_cast<std::size_t>(t)], inv_freq.data()}).ok());
    REQUIRE(std::memcmp(alone.data(), all.data() + t * 64, 64 * sizeof(float)) == 0);
  }
}

TEST_CASE("rope.bad_launches_write_nothing", "[rope]") {
  const std::int64_t position = 5;
  const auto inv_freq = frequencies({}, 32);
  std::vector<float> x(64, 1.0f);
  Cpu cpu({.num_threads = 1});
  const RopeArgs good{x.data(), 64, 1, 2, 32, 32, &position, inv_freq.data()};
  const auto refused = [&](auto change) {
    RopeArgs args = good;
    change(args);
    return !rope(cpu, args).ok() && !reference::rope(args).ok();
  };
  const std::int64_t negative = -1;
  const std::int64_t beyond = kMaxRopePosition;
  REQUIRE(refused([](RopeArgs& a) { a.rotary_dim = 31; }));
  REQUIRE(refused([](RopeArgs& a) { a.rotary_dim = 34; }));
  REQUIRE(refused([](RopeArgs& a) { a.token_stride = 63; }));
  REQUIRE(refused([&](RopeArgs& a) { a.positions = &negative; }));
  REQUIRE(refused([&](RopeArgs& a) { a.positions = &beyond; }));
  REQUIRE(validate([&] { RopeArgs a = good; a.positions = &beyond; return a; }()).ok());  // positions are no numbers of the launch
  REQUIRE(refused([](RopeArgs& a) { a.inv_freq = nullptr; }));
  REQUIRE(refused([](RopeArgs& a) { a.num_tokens = -1; }));
  const std::vector<float> no_number(16, std::numeric_limits<float>::quiet_NaN());
  REQUIRE(refused([&](RopeArgs& a) { a.inv_freq = no_number.data(); }));
  for (const float value : kvpage_test::kNoScale) {
    CAPTURE(value);
    REQUIRE(refused([=](RopeArgs& a) { a.magnitude = value; }));
  }
  REQUIRE(x == std::vector<float>(64, 1.0f));
}

TEST_CASE("rope.without_heads_there_is_nothing_to_do", "[rope]") {
  Cpu cpu({.num_threads = 2});
  REQUIRE(rope(cpu, RopeArgs{.num_tokens = 3, .head_dim = 64, .rotary_dim = 64}).ok());
}
