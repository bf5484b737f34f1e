/// \file The sampler's law: against doubles, against a full sort, and in frequencies of real draws.
#include "kernels/sample/sample_row_fixture.hpp"
#include "support/catch.hpp"
#include "support/chi_square.hpp"
#include "support/environment.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace {

using namespace kvpage;
using kvpage_test::SampleRow;
using kvpage_test::chi_square_sigmas;

/// Probabilities after temperature, min-p, top-k, top-p (temperature first), in doubles. Requires: no ties at a cut.
std::vector<double> exact_law(const SampleRow& row) {
  const double max = static_cast<double>(*std::max_element(row.logits.begin(), row.logits.end()));
  std::vector<std::size_t> order(row.logits.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return row.logits[a] > row.logits[b]; });
  std::vector<double> law(row.logits.size());
  for (std::size_t id = 0; id < law.size(); ++id) {
    law[id] = std::exp((static_cast<double>(row.logits[id]) - max) / static_cast<double>(row.params.temperature));
  }
  std::erase_if(order, [&](auto id) { return law[id] < static_cast<double>(row.params.min_p); });
  if (row.params.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(row.params.top_k)));
  double total = 0.0;
  for (const auto id : order) total += law[id];
  double mass = 0.0;
  std::size_t kept = 0;
  while (kept < order.size() && (kept == 0 || mass < static_cast<double>(row.params.top_p) * total)) mass += law[order[kept++]];
  order.resize(kept);
  std::vector<double> result(law.size(), 0.0);
  for (const auto id : order) result[id] = law[id] / mass;
  return result;
}

/// Configurations over 24 logits without ties.
std::vector<SampleRow> law_rows() {
  SampleRow row;
  for (int i = 0; i < 24; ++i) row.logits.push_back(static_cast<float>((i * 7) % 24) * 0.17f);
  std::vector<SampleRow> rows(8, row);
  rows[1].params = {.temperature = 0.7f, .seed = 1};
  rows[2].params = {.temperature = 1.5f, .top_k = 5, .seed = 2};
  rows[3].params = {.top_p = 0.8f, .seed = 3};
  rows[4].params = {.min_p = 0.3f, .seed = 4};
  rows[5].params = {.temperature = 1.2f, .min_p = 0.05f, .top_k = 12, .top_p = 0.9f, .seed = 5};
  rows[6].params = {.temperature = 3.0f, .top_k = 1, .seed = 6};
  rows[7].params = {.temperature = 0.4f, .top_p = 0.95f, .seed = 0xFFFF'FFFF'FFFF'FFFF};
  return rows;
}

/// How often each id is drawn at positions (or children) 0 .. draws - 1.
std::vector<int> count_draws(SampleRow row, int draws, bool by_child) {
  std::vector<int> counts(row.logits.size());
  auto scratch = kvpage_test::make_scratch(row.vocab_size());
  for (int i = 0; i < draws; ++i) {
    (by_child ? row.child : row.position) = static_cast<std::uint32_t>(i);
    ++counts[sample_row(row.args(), std::as_writable_bytes(std::span(scratch))).value()];
  }
  return counts;
}

/// A random row that is rich in ties, masked tokens and edge cases.
SampleRow random_row(std::mt19937& random) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const auto chance = [&](std::uint32_t one_in) { return below(one_in) == 0; };
  SampleRow row;
  const std::uint32_t vocab_size = chance(10) ? 1 + below(3'000) : 1 + below(40);
  const std::uint32_t levels = 1 + below(chance(2) ? 8 : 1'000);
  for (std::uint32_t i = 0; i < vocab_size; ++i) {
    row.logits.push_back(chance(12) ? kvpage_test::kNever : static_cast<float>(below(levels)) * 0.1f - 3.0f);
  }
  const auto random_ids = [&] {
    std::vector<TokenId> ids(below(12));
    for (TokenId& id : ids) id = below(vocab_size);
    return ids;
  };
  if (chance(3)) row.banned = random_ids();
  if (chance(3)) row.prompt_ids = random_ids();
  if (chance(3)) row.output_ids = random_ids();
  if (chance(4)) {
    row.allowed.resize((vocab_size + 31) / 32);
    for (std::uint32_t& word : row.allowed) word = static_cast<std::uint32_t>(random());
  }
  if (chance(4)) row.bias = {{below(vocab_size), 1.5f}, {below(vocab_size), -2.0f}, {below(vocab_size), 50.0f}};
  constexpr float kTemperatures[] = {0.0f, 1e-5f, 0.3f, 1.0f, 1.0f, 2.0f, 1e6f};
  constexpr float kFractions[] = {0.0f, 0.05f, 0.25f, 0.5f, 0.9f, 0.999f, 1.0f};
  row.params.temperature = kTemperatures[below(7)];
  if (chance(2)) row.params.min_p = kFractions[below(7)];
  if (chance(2)) row.params.top_p = kFractions[below(7)];
  if (chance(2)) row.params.top_k = static_cast<std::int64_t>(below(vocab_size + 3)) - 1;
  if (chance(3)) row.params.repetition_penalty = 1.3f;
  if (chance(3)) row.params.presence_penalty = 0.3f;
  if (chance(3)) row.params.frequency_penalty = -0.2f;
  row.params.seed = random();
  row.position = below(1'000'000);
  row.child = below(3);
  return row;
}

/// Rows where cpu and reference differ.
template <FilterOrder Order>
int count_differences(std::uint32_t seed, int rows) {
  std::mt19937 random(seed);
  int differences = 0;
  for (int i = 0; i < rows; ++i) {
    const SampleRow row = random_row(random);
    const DrawResult got = row.sample<Order>();
    const DrawResult want = reference::sample_row<Order>(row.args());
    const bool equal = got.has_value() == want.has_value() && (got ? *got == *want : got.error() == want.error());
    if (!equal) ++differences;
  }
  return differences;
}

}  // namespace

TEST_CASE("sample.law.weights_are_the_exact_probabilities", "[sample]") {
  for (const SampleRow& row : law_rows()) {
    auto scratch = kvpage_test::make_scratch(row.vocab_size());
    const auto law = sample_law(row.args(), std::as_writable_bytes(std::span(scratch)));
    const auto exact = exact_law(row);
    INFO("seed " << row.params.seed);
    for (std::size_t id = 0; id < exact.size(); ++id) {
      const double got = static_cast<double>(law->weights[id]) / static_cast<double>(law->total);
      CHECK(got == Approx(exact[id]).epsilon(3e-6));
      CHECK((got > 0.0) == (exact[id] > 0.0));
    }
    CHECK(law->most_likely == std::max_element(row.logits.begin(), row.logits.end()) - row.logits.begin());
  }
}

TEST_CASE("sample.law.frequencies_of_draws_follow_it", "[sample]") {
  constexpr int kDraws = 100'000;
  for (const SampleRow& row : law_rows()) {
    for (const bool by_child : {false, true}) {
      INFO("seed " << row.params.seed << ", by child " << by_child);
      const auto counts = count_draws(row, kDraws, by_child);
      CHECK(chi_square_sigmas(counts, exact_law(row), kDraws) < 5.0);
    }
  }
}

TEST_CASE("sample.law.the_frequency_check_rejects_a_slightly_wrong_law", "[sample]") {
  constexpr int kDraws = 100'000;
  SampleRow wrong = law_rows()[1];
  const auto exact = exact_law(wrong);
  wrong.params.temperature = 0.72f;
  CHECK(chi_square_sigmas(count_draws(wrong, kDraws, false), exact, kDraws) > 5.0);
}

TEST_CASE("sample.law.cpu_equals_the_sorted_reference", "[sample]") {
  CHECK(count_differences<TemperatureFirst>(11, 30'000) == 0);
  CHECK(count_differences<TemperatureLast>(12, 30'000) == 0);
}

TEST_CASE("sample.law.cpu_equals_the_sorted_reference_on_new_rows", "[sample][night]") {
  if (!kvpage_test::night_run()) kvpage_test::skip("long-running");
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  CHECK(count_differences<TemperatureFirst>(seed, 500'000) == 0);
  CHECK(count_differences<TemperatureLast>(seed + 1, 500'000) == 0);
}

TEST_CASE("sample.law.a_full_size_vocabulary_equals_the_reference", "[sample]") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  SampleRow row;
  for (std::int64_t i = 0; i < kMaxVocabSize; ++i) row.logits.push_back(normal(random));
  for (const auto& params : {SamplingParams{}, SamplingParams{.top_k = 40, .top_p = 0.95f}, SamplingParams{.min_p = 0.05f},
                             SamplingParams{.temperature = 1e9f, .top_p = 0.999f}}) {
    row.params = params;
    for (row.position = 0; row.position < 2; ++row.position) CHECK(row.sample().value() == *reference::sample_row(row.args()));
  }
  row.logits.assign(row.logits.size(), 0.0f);  // the largest total weight: 2^63
  row.params = {.top_p = 0.5f};
  CHECK(row.support() == kvpage_test::ids_between(0, static_cast<TokenId>(kMaxVocabSize / 2 - 1)));
}
