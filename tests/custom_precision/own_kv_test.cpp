/// \file A user's own KV precisions: decode and prefill on every instruction set, against the reference and dense attention.
#include "01_custom_precision/grouped_bytes_kv.hpp"
#include "kernels/paged_attention/attention_storage.hpp"
#include "support/isa.hpp"

#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/precision/fp8_e5m2.hpp>

#include <cmath>
#include <limits>

namespace {
using namespace kvpage_test;
using own::GroupedBytesKV;

/// Integer codes of kScaling, encoded without care for quality: what the descriptor can say beyond the shipped codecs.
template <int kCodeBits, kvpage::KVScaling kCodeScaling, bool kRotate>
struct DescribedCodec {
  using Code = std::uint8_t;
  static constexpr int kBits = kCodeBits;
  static constexpr int kDotDims = 4;
  static constexpr bool kRotated = kRotate;
  static constexpr KVScaling kScaling = kCodeScaling;
  static constexpr std::int64_t num_params(std::int64_t head_dim) noexcept { return kScaling.num_params(head_dim); }

  static void encode(const float* x, std::int64_t head_dim, Code* codes, std::uint16_t* params) noexcept {
    const std::int64_t size = kScaling.group_dims == 0 ? head_dim : kScaling.group_dims;
    constexpr float kMaxCode = static_cast<float>((1 << kCodeBits) - 1);
    for (std::int64_t d = 0; d < head_dim; ++d) {
      std::uint16_t* group = params + d / size * (kScaling.has_minimum ? 2 : 1);
      group[0] = encode_half(10.0f / kMaxCode);
      if (kScaling.has_minimum) group[1] = encode_half(0.25f * static_cast<float>(d / size));
      const float minimum = kScaling.has_minimum ? decode_half(group[1]) : 0.0f;
      const float level = (x[d] - minimum) / decode_half(group[0]) + static_cast<float>(kScaling.offset);
      codes[d] = static_cast<Code>(std::clamp(level, 0.0f, kMaxCode));
    }
  }
  static float decode(Code code, const std::uint16_t* params, std::int64_t d) noexcept {
    const std::int64_t group = kScaling.group_dims == 0 ? 0 : d / kScaling.group_dims;
    const std::uint16_t* param = params + group * (kScaling.has_minimum ? 2 : 1);
    const float product = decode_half(param[0]) * static_cast<float>(code - kScaling.offset);
    return kScaling.has_minimum ? product + decode_half(param[1]) : product;
  }
};

/// 4-bit keys of groups of 64 about code 7; byte values with one scale and one minimum.
struct MixedKV {
  static constexpr std::string_view kName = "mixed";
  using Key = DescribedCodec<4, KVScaling{.group_dims = 64, .offset = 7}, true>;
  using Value = DescribedCodec<8, KVScaling{.offset = 90, .has_minimum = true}, false>;
};
static_assert(KVFormat<MixedKV> && ScaledKVCodec<MixedKV::Key> && ScaledKVCodec<MixedKV::Value>);

/// Bytes that are the upper half of a 16-bit float: not on the list of formats, and still read by whole lanes.
struct WideRangeKV {
  static constexpr std::string_view kName = "wide-range";
  using Key = PlainCodec<Fp8E5M2>;
  using Value = PlainCodec<Fp8E5M2>;
};
static_assert(kvpage::detail::kSmallExponentBits<WideRangeKV::Key> == 5 && kvpage::detail::kSmallExponentBits<Fp8KV::Key> == 4);
static_assert(kvpage::detail::kSmallExponentBits<MixedKV::Value> == 0 && kvpage::detail::kSmallExponentBits<PlainCodec<F16>> == 0);

/// Codes that nothing is said about: the kernels decode them step by step.
struct OpaqueCodec {
  using Inner = DescribedCodec<8, KVScaling{.offset = 90, .has_minimum = true}, false>;
  using Code = Inner::Code;
  static constexpr int kBits = 8;
  static constexpr int kDotDims = 1;
  static constexpr bool kRotated = false;
  static constexpr std::int64_t num_params(std::int64_t head_dim) noexcept { return Inner::num_params(head_dim); }
  static void encode(const float* x, std::int64_t head_dim, Code* codes, std::uint16_t* params) noexcept {
    Inner::encode(x, head_dim, codes, params);
  }
  static float decode(Code code, const std::uint16_t* params, std::int64_t d) noexcept { return Inner::decode(code, params, d); }
};
struct OpaqueKV {
  static constexpr std::string_view kName = "opaque";
  using Key = OpaqueCodec;
  using Value = OpaqueCodec;
};
static_assert(KVFormat<OpaqueKV> && !ScaledKVCodec<OpaqueCodec>);

AttentionProblem make_problem(std::int64_t num_q_heads, std::int64_t head_dim, unsigned seed) {
  AttentionProblem problem;
  problem.num_q_heads = num_q_heads;
  problem.num_kv_heads = 2;
  problem.head_dim = head_dim;
  problem.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  problem.seqs = {{1, 1, 0}, {70, 3, 67}, {290, 1, 289}, {60, 50, 10}};
  fill_random(problem, seed);
  // Keys of 8 bits and fewer are stored without their bias, whoever wrote the codec.
  for (std::int64_t d = 0; d < problem.kv_row(); ++d) problem.key_bias.push_back(d % 7 == 0 ? 3.0f : -0.5f);
  for (std::int64_t i = 0; i < head_dim / 2; ++i) problem.inv_freq.push_back(1.0f / static_cast<float>(1 + i));
  return problem;
}

/// The reference on what the pages hold; every instruction set near it, and all with the same bits.
template <class Format>
void require_agreement(std::int64_t head_dim, std::int64_t block_size) {
  using KV = CpuKV<Format>;
  for (const std::int64_t num_q_heads : {2, 6, 14}) {
    CAPTURE(Format::kName, head_dim, block_size, num_q_heads);
    const AttentionProblem problem = make_problem(num_q_heads, head_dim, static_cast<unsigned>(head_dim + num_q_heads));
    const AttentionResult reference = AttentionRun<KV>(problem, {.reference = true, .block_size = block_size}).run();
    const AttentionResult generic = AttentionRun<KV>(problem, {.block_size = block_size, .isa = Isa::kGeneric}).run();
    require_near(generic, reference, error_bound(problem));
    for (const Isa isa : runnable_isas()) {
      CAPTURE(isa_name(isa));
      REQUIRE(AttentionRun<KV>(problem, {.block_size = block_size, .num_threads = 2, .isa = isa}).run() == generic);
      REQUIRE(AttentionRun<KV>(problem, {.block_size = block_size, .isa = isa, .permutation = 3, .chunk = 7}).run() == generic);
    }
  }
}
}  // namespace

TEST_CASE("custom_precision.kv.kernels_read_own_codes_in_place", "[custom_precision]") {
  for (const std::int64_t head_dim : {64, 96, 128, 256}) {
    CHECK(paged_attention_slow_reason<CpuKV<GroupedBytesKV>>({2, head_dim, 32}).empty());
    CHECK(paged_attention_slow_reason<CpuKV<MixedKV>>({2, head_dim, 32}).empty());
  }
}

TEST_CASE("custom_precision.kv.every_instruction_set_gives_the_reference_and_the_same_bits", "[custom_precision]") {
  for (const std::int64_t head_dim : {32, 64, 80, 96, 128, 256}) require_agreement<GroupedBytesKV>(head_dim, 32);
  require_agreement<GroupedBytesKV>(64, 8);  // no whole lanes: copied step by step
}

TEST_CASE("custom_precision.kv.groups_offsets_and_minima_are_what_the_descriptor_says", "[custom_precision]") {
  for (const std::int64_t head_dim : {64, 80, 96, 128}) require_agreement<MixedKV>(head_dim, 32);
}

TEST_CASE("custom_precision.kv.codes_that_say_nothing_are_decoded_step_by_step", "[custom_precision]") {
  CHECK_FALSE(paged_attention_slow_reason<CpuKV<OpaqueKV>>({2, 64, 32}).empty());
  for (const std::int64_t head_dim : {64, 80}) require_agreement<OpaqueKV>(head_dim, 32);
}

TEST_CASE("custom_precision.kv.small_floats_are_known_by_their_codes", "[custom_precision]") {
  require_agreement<WideRangeKV>(64, 32);
  require_agreement<WideRangeKV>(80, 16);
}

TEST_CASE("custom_precision.kv.attention_is_near_that_over_unquantised_keys_and_values", "[custom_precision]") {
  AttentionProblem problem = make_problem(6, 64, 5);
  problem.key_bias.clear();
  const AttentionResult got = AttentionRun<CpuKV<GroupedBytesKV>>(problem, {.num_threads = 2}).run();
  const AttentionResult dense = dense_attention(problem, exact_kv(problem));
  double error = 0.0, magnitude = 0.0;
  for (std::size_t i = 0; i < got.out.size(); ++i) {
    error += std::fabs(static_cast<double>(got.out[i]) - static_cast<double>(dense.out[i]));
    magnitude += std::fabs(static_cast<double>(dense.out[i]));
  }
  CHECK(error <= 0.01 * magnitude);  // a code's error is at most 1 / 254 of its group's largest value
  CHECK(error > 0.0);
}

TEST_CASE("custom_precision.kv.damage_stays_visible_in_its_own_row", "[custom_precision]") {
  AttentionProblem problem = make_problem(6, 64, 6);
  problem.kv[1].v[static_cast<std::size_t>(40 * problem.kv_row())] = std::numeric_limits<float>::infinity();
  for (const Isa isa : runnable_isas()) {
    CAPTURE(isa_name(isa));
    const AttentionResult got = AttentionRun<CpuKV<GroupedBytesKV>>(problem, {.isa = isa}).run();
    const std::size_t row = static_cast<std::size_t>(problem.num_q_heads * problem.head_dim);
    for (std::size_t i = 0; i < got.out.size(); ++i) {
      const std::size_t token = i / row, head = i % row / 64, dim = i % 64;
      const bool damaged = token >= 1 && token <= 3 && head < 3 && dim < 32;  // the sequence, kv head and group of the value
      REQUIRE(std::isnan(got.out[i]) == damaged);
    }
  }
}
