#include "support/catch.hpp"
#include "support/no_scale.hpp"
#include "support/random_floats.hpp"

#include <kvpage/kernels/embedding/cpu.hpp>
#include <kvpage/kernels/embedding/reference.hpp>
#include <kvpage/quant/weight_formats.hpp>
#include <kvpage/quant/weight_view.hpp>

#include <algorithm>
#include <string>

namespace {
using namespace kvpage;

std::vector<std::byte> random_table(std::int64_t bytes, std::uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  for (std::byte& b : out) b = static_cast<std::byte>(rng() & 0x3fu);  // halves stay finite
  return out;
}
}  // namespace

TEST_CASE("embedding.cpu_equals_reference_and_the_decoder", "[embedding]") {
  constexpr std::int64_t kVocab = 50, kHidden = 96;
  const auto bytes = random_table(kVocab * kHidden / 32 * Q5_1::kBlockBytes, 3);
  const WeightView table = weight_view<Q5_1>(bytes.data(), kVocab, kHidden);
  const std::vector<TokenId> tokens{0, 49, 7, 7, 21, 48, 3, 1, 2, 30, 31};
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  for (const float scale : {1.0f, 23.4521f}) {
    std::vector<float> expected(static_cast<std::size_t>(num_tokens * 100), -7.0f);
    std::vector<float> actual = expected;
    EmbeddingArgs args{table, tokens.data(), num_tokens, scale, expected.data(), 100};
    REQUIRE(reference::embedding(args).ok());
    Cpu cpu({.num_threads = 3});
    args.out = actual.data();
    REQUIRE(embedding(cpu, args).ok());
    REQUIRE(kvpage_test::same_bits(actual, expected));
    std::fill(actual.begin(), actual.end(), -7.0f);
    REQUIRE(validate_tables(args).ok());
    REQUIRE(embedding(cpu, args, kTablesChecked).ok());
    REQUIRE(kvpage_test::same_bits(actual, expected));
    std::fill(actual.begin(), actual.end(), -7.0f);
    REQUIRE(reference::embedding(args, kTablesChecked).ok());
    REQUIRE(kvpage_test::same_bits(actual, expected));
    std::vector<float> row(kHidden);
    table.decode_row(21, row.data());
    for (std::size_t c = 0; c < kHidden; ++c) REQUIRE(actual[4 * 100 + c] == row[c] * scale);
    REQUIRE(actual[4 * 100 + kHidden] == -7.0f);  // the gap between rows is not touched
  }
}

TEST_CASE("embedding.bad_launches_write_nothing", "[embedding]") {
  const auto bytes = random_table(4 * Q8_0::kBlockBytes, 4);
  const WeightView table = weight_view<Q8_0>(bytes.data(), 4, 32);
  const TokenId tokens[] = {0, 4};
  std::vector<float> out(64, 5.0f);
  Cpu cpu({.num_threads = 1});
  const EmbeddingArgs good{table, tokens, 1, 1.0f, out.data(), 32};
  EmbeddingArgs args = good;
  args.num_tokens = 2;
  const Status status = embedding(cpu, args);
  REQUIRE(status.code() == StatusCode::kInvalidArgument);
  REQUIRE(std::string(status.message()).find("token id") != std::string::npos);
  REQUIRE(status.value() == 4);
  REQUIRE(status.limit() == 4);
  REQUIRE(validate(args).ok());  // token ids are no numbers of the launch
  REQUIRE(validate_tables(args).message() == std::string(status.message()));
  REQUIRE(reference::embedding(args).message() == std::string(status.message()));
  args = good;
  args.out_stride = 31;
  REQUIRE_FALSE(embedding(cpu, args).ok());
  REQUIRE_FALSE(embedding(cpu, args, kTablesChecked).ok());
  args = good;
  args.tokens = nullptr;
  REQUIRE_FALSE(embedding(cpu, args).ok());
  args = good;
  args.num_tokens = -1;
  REQUIRE_FALSE(embedding(cpu, args).ok());
  for (const float value : kvpage_test::kNoScale) {
    if (value == -1.0f) continue;  // a product like any other
    CAPTURE(value);
    args = good;
    args.scale = value;
    REQUIRE_FALSE(embedding(cpu, args).ok());
    REQUIRE_FALSE(reference::embedding(args).ok());
  }
  REQUIRE(out == std::vector<float>(64, 5.0f));
  args.num_tokens = 0;
  REQUIRE(embedding(cpu, args).ok());
}
