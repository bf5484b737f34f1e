/// \file The same tokens give the same bits however they are cut into steps, by any number of threads, from a cached prefix too.
#include "engine/scoring.hpp"
#include "engine/tiny_models.hpp"
#include "golden/greedy_rows.hpp"

#include <algorithm>

namespace kvpage_test {
namespace {

using kvpage::engine::LanguageModel;
using kvpage::engine::LogitRows;
using kvpage::engine::Score;

/// The numbers of a score in one row; `num_moved` prompt tokens were scored as continuation instead.
struct ScoreBits {
  double nll = 0;                ///< of prompt and moved tokens
  std::vector<double> numbers;   ///< of the other continuation tokens
  std::vector<TokenId> argmaxes;
  bool operator==(const ScoreBits&) const = default;
};

/// Scores ids [0, num_prompt - num_moved) as prompt and the rest as continuation.
ScoreBits score_bits(LanguageModel& model, std::span<const TokenId> ids, std::size_t num_prompt, std::size_t num_moved,
                     std::int64_t chunk) {
  const std::size_t cut = num_prompt - num_moved;
  const auto score = kvpage::engine::score(model, ids.first(cut), ids.subspan(cut), chunk);
  if (!score) FAIL(score.error().message);
  REQUIRE(score->continuation.size() == ids.size() - cut);
  ScoreBits bits{score->prompt_nll, {}, {}};
  for (std::size_t i = 0; i < score->continuation.size(); ++i) {
    const auto& token = score->continuation[i];
    REQUIRE(token.id == ids[cut + i]);
    if (i < num_moved) {
      bits.nll -= token.logprob;
      continue;
    }
    bits.numbers.insert(bits.numbers.end(), {token.logprob, token.argmax_logprob});
    bits.argmaxes.push_back(token.argmax);
  }
  return bits;
}

void check_invariance(LanguageModel& model, std::span<const TokenId> ids, std::size_t num_prompt, const ScoreBits& want) {
  for (const std::int64_t chunk : {1, 3, 16, 512}) {
    INFO("chunk " << chunk);
    CHECK(score_bits(model, ids, num_prompt, 0, chunk) == want);
  }
  for (const std::size_t num_moved : {std::size_t{1}, std::size_t{17}, num_prompt - 1}) {
    if (num_moved >= num_prompt) continue;
    INFO("moved " << num_moved);
    CHECK(score_bits(model, ids, num_prompt, num_moved, 16) == want);
  }
}

/// All backends, cache types and thread counts: the numbers of one backend and cache type never change.
void check_model(const TinyModel& shape) {
  const TinyFile file(shape);
  const auto ids = some_ids(71);
  for (const auto& kernels : kvpage::engine::backend_names()) {
    for (const auto& kv_type : kvpage::engine::kv_type_names()) {
      const auto one_thread = file.load(tiny_config(kernels, kv_type));
      const ScoreBits want = score_bits(*one_thread, ids, 60, 0, 512);
      INFO(shape.architecture << ", " << kernels << ", " << kv_type);
      check_invariance(*one_thread, ids, 60, want);
      for (const int threads : {2, 3}) {
        INFO(threads << " threads");
        const auto model = file.load(tiny_config(kernels, kv_type, threads));
        CHECK(score_bits(*model, ids, 60, 0, 512) == want);
        CHECK(score_bits(*model, ids, 60, 17, 16) == want);
      }
    }
  }
}

}  // namespace

TEST_CASE("engine.invariance.every_switch", "[engine]") { check_model(every_switch()); }
TEST_CASE("engine.invariance.plain_model", "[engine]") { check_model(plain_model()); }
TEST_CASE("engine.invariance.biased_model", "[engine]") { check_model(biased_model()); }
TEST_CASE("engine.invariance.quantised_weights", "[engine]") { check_model(quantised_model()); }

TEST_CASE("engine.invariance.top10_does_not_depend_on_the_chunk", "[engine]") {
  const TinyFile file(quantised_model());
  const auto model = file.load(tiny_config("cpu", "f16", 2));
  const auto ids = some_ids(50);
  const auto whole = kvpage::engine::score(*model, ids, {}, 512), single = kvpage::engine::score(*model, ids, {}, 1);
  REQUIRE(whole);
  REQUIRE(single);
  CHECK(whole->first_top10.size() == 10);
  CHECK(whole->first_top10 == single->first_top10);
  CHECK(std::is_sorted(whole->first_top10.begin(), whole->first_top10.end(), [](auto a, auto b) { return a.second > b.second; }));
}

TEST_CASE("engine.invariance.a_cached_prefix_changes_no_bit", "[engine]") {
  const TinyFile file(every_switch());
  for (const auto& kernels : kvpage::engine::backend_names()) {
    for (const auto& kv_type : kvpage::engine::kv_type_names()) {
      const auto model = file.load(tiny_config(kernels, kv_type, 2));
      const auto ids = some_ids(60), other = some_ids(30, 7);
      kvpage::engine::SequenceRunner alone(*model);
      const auto want = append_all(alone, ids);
      for (const std::int64_t kept : {60, 59, 33, 32, 1, 0}) {
        INFO(kernels << ", " << kv_type << ", kept " << kept);
        kvpage::engine::SequenceRunner runner(*model);
        auto start = std::vector(ids.begin(), ids.begin() + kept);
        start.insert(start.end(), other.begin(), other.end());
        REQUIRE(runner.start(start, LogitRows::kNone));
        CHECK(start_last(runner, ids) == want.back());
        CHECK(runner.cached_tokens() == std::min<std::int64_t>(kept, 59));
        CHECK(runner.computed_positions() == kept + 30 + 60 - runner.cached_tokens());
        CHECK(runner.num_tokens() == 60);
      }
    }
  }
}

TEST_CASE("engine.invariance.a_real_model", "[engine]") {
  const GoldenModel golden = open_golden_model("smollm2");
  const GreedyRow row = row_named(golden.rows, "chat_capital");
  std::vector<TokenId> ids = row.prompt_ids;
  ids.insert(ids.end(), row.greedy_ids.begin(), row.greedy_ids.end());
  const auto one_thread = golden.load("cpu", "", 1), two_threads = golden.load("cpu", "", 2);
  const ScoreBits want = score_bits(*one_thread, ids, row.prompt_ids.size(), 0, 512);
  check_invariance(*one_thread, ids, row.prompt_ids.size(), want);
  CHECK(score_bits(*two_threads, ids, row.prompt_ids.size(), 17, 16) == want);
  const GreedyRow fox = row_named(golden.rows, "fox");
  const auto reference = golden.load("reference", "", 1);
  const auto fox_bits = [&](std::size_t moved, std::int64_t chunk) {
    return score_bits(*reference, std::span(fox.greedy_ids).first(4), 3, moved, chunk);
  };
  CHECK(fox_bits(0, 512) == fox_bits(0, 1));
  CHECK(fox_bits(0, 512) == fox_bits(2, 2));
}

}  // namespace kvpage_test
