/// \file Batches: a row's token depends on its own arguments alone.
#include "kernels/sample/sample_row_fixture.hpp"
#include "support/catch.hpp"

#include <array>
#include <string>

namespace {

using namespace kvpage;
using kvpage_test::SampleRow;

SampleRow seeded_row(std::uint64_t seed, std::uint32_t position) {
  SampleRow row{.params = {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .seed = seed}, .position = position};
  for (int i = 0; i < 200; ++i) row.logits.push_back(static_cast<float>((i * 37 + static_cast<int>(position)) % 101) * 0.03f);
  return row;
}

std::vector<TokenId> sample_batch(const std::vector<SampleRow>& rows, int num_threads) {
  Cpu cpu(CpuConfig{.num_threads = num_threads});
  std::vector<SampleArgs> args;
  for (const SampleRow& row : rows) args.push_back(row.args());
  std::vector<DrawResult> results(rows.size(), TokenId{0xFFFF'FFFF});
  auto scratch = kvpage_test::make_scratch(200, num_threads);
  REQUIRE(sample(cpu, args, results, std::as_writable_bytes(std::span(scratch))).ok());
  std::vector<TokenId> tokens;
  for (const DrawResult& result : results) tokens.push_back(result.value());
  return tokens;
}

}  // namespace

TEST_CASE("bug.B53.a_seed_holds_in_every_batch_order_and_thread_count", "[sample][bug]") {
  std::vector<TokenId> alone;
  for (std::uint32_t position = 0; position < 16; ++position) alone.push_back(seeded_row(42, position).sample().value());
  CHECK(std::adjacent_find(alone.begin(), alone.end(), std::not_equal_to<>{}) != alone.end());
  for (int i = 15; i >= 0; --i) {  // any order, and again after a preemption
    CHECK(seeded_row(42, static_cast<std::uint32_t>(i)).sample().value() == alone[static_cast<std::size_t>(i)]);
  }
  for (const int num_threads : {1, 2, 3}) {
    for (std::uint32_t position = 0; position < 16; ++position) {
      for (std::size_t place = 0; place < 5; ++place) {
        std::vector<SampleRow> rows;
        for (std::uint64_t i = 0; i < 5; ++i) rows.push_back(seeded_row(1'000 * position + i, position));  // other seeds
        rows[place] = seeded_row(42, position);
        rows[(place + 1) % 5] = seeded_row(42, position);  // twice in one batch
        const auto tokens = sample_batch(rows, num_threads);
        CHECK(tokens[place] == alone[position]);
        CHECK(tokens[(place + 1) % 5] == alone[position]);
      }
    }
  }
}

TEST_CASE("sample.batch.children_and_seeds_draw_independently", "[sample]") {
  int equal_children = 0;
  int equal_seeds = 0;
  for (std::uint32_t position = 0; position < 1'000; ++position) {
    SampleRow row = seeded_row(42, position);
    const TokenId token = row.sample().value();
    row.child = 1;
    equal_children += row.sample().value() == token;
    row.child = 0;
    row.params.seed = 43;
    equal_seeds += row.sample().value() == token;
  }
  CHECK(equal_children < 100);  // about 40 tokens are about equally likely: 25 by chance
  CHECK(equal_seeds < 100);
}

TEST_CASE("sample.batch.a_failing_row_ends_alone", "[sample]") {
  std::vector<SampleRow> rows{seeded_row(1, 0), seeded_row(2, 0), seeded_row(3, 0), seeded_row(4, 0)};
  rows[1].logits[7] = std::numeric_limits<float>::quiet_NaN();
  rows[2].allowed.assign(7, 0);
  std::vector<SampleArgs> args;
  for (const SampleRow& row : rows) args.push_back(row.args());
  std::vector<DrawResult> results(4, TokenId{0xFFFF'FFFF});
  Cpu cpu(CpuConfig{.num_threads = 2});
  auto scratch = kvpage_test::make_scratch(200, 2);
  REQUIRE(sample(cpu, args, results, std::as_writable_bytes(std::span(scratch))).ok());
  CHECK(results[0].value() == rows[0].sample().value());
  CHECK(results[1].error() == SampleError{SampleError::Kind::kBadLogit, 7});
  CHECK(results[2].error() == SampleError{SampleError::Kind::kNothingAllowed});
  CHECK(results[3].value() == rows[3].sample().value());
}

TEST_CASE("sample.batch.refuses_small_scratch_and_unequal_spans", "[sample]") {
  const SampleRow row = seeded_row(1, 0);
  const std::array args{row.args(), row.args()};
  std::vector<DrawResult> results(2, TokenId{5});
  Cpu cpu(CpuConfig{.num_threads = 2});
  auto scratch = kvpage_test::make_scratch(200, 2);
  const auto bytes = std::as_writable_bytes(std::span(scratch));
  const Status small = sample(cpu, args, results, bytes.first(bytes.size() - 8));
  CHECK(small.code() == StatusCode::kCapacity);
  CHECK(small.value() == 2 * sample_scratch_bytes(200));
  CHECK(small.limit() == small.value() - 8);
  CHECK(results[0].value() == 5);
  CHECK(sample(cpu, args, std::span(results).first(1), bytes).code() == StatusCode::kInvalidArgument);
  CHECK(sample(cpu, {}, {}, {}).ok());
}
