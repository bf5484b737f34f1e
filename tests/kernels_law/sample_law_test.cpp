/// \file The law for sampling: tokens, their law and their log-probabilities depend on the row's own arguments.
#include "kernels/sample/sample_row_fixture.hpp"
#include "kernels_law/law.hpp"

#include <kvpage/kernels/sample/cpu_log_probs.hpp>

namespace kvpage_test {
namespace {

using kvpage::DrawResult;
using kvpage::TokenId;

struct SampleProblem {
  std::vector<SampleRow> rows_;

  explicit SampleProblem(LawRandom& random) {
    for (int i = 0; i < 32; ++i) rows_.push_back(some_row(random));
  }

  /// Rows of one batch may differ in everything, the vocabulary too.
  static SampleRow some_row(LawRandom& random) {
    SampleRow row;
    row.logits = random.floats(random.between(1, 600), -8.0f, 8.0f);
    const auto some_ids = [&](std::int64_t most) {
      std::vector<TokenId> ids;
      const std::int64_t last = row.vocab_size() - 1;
      for (std::int64_t n = random.between(0, most); n > 0; --n) ids.push_back(static_cast<TokenId>(random.between(0, last)));
      return ids;
    };
    kvpage::SamplingParams& params = row.params;
    params.temperature = random.one_in(4) ? 0.0f : random.floats(1, 0.2f, 2.0f)[0];
    if (random.one_in(3)) params.min_p = 0.05f;
    if (random.one_in(3)) params.top_k = random.between(1, 50);
    if (random.one_in(3)) params.top_p = random.floats(1, 0.1f, 1.0f)[0];
    if (random.one_in(3)) params.repetition_penalty = 1.2f, params.presence_penalty = 0.3f, params.frequency_penalty = 0.1f;
    params.seed = static_cast<std::uint64_t>(random.between(0, 1 << 20));
    row.prompt_ids = some_ids(20), row.output_ids = some_ids(20);
    if (random.one_in(4)) row.bias = {{row.prompt_ids.empty() ? 0 : row.prompt_ids[0], 3.0f}};
    row.position = static_cast<std::uint32_t>(random.between(0, 5'000));
    row.child = static_cast<std::uint32_t>(random.between(0, 3));
    return row;
  }
  std::int64_t num_rows() const { return std::ssize(rows_); }
  std::string description() const { return "32 rows"; }

  /// The token, then the law and the log-probabilities, computed in memory that other rows have used.
  std::vector<RowBytes> run(kvpage::Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    std::vector<kvpage::SampleArgs> args;
    for (const std::int64_t row : rows) args.push_back(rows_[static_cast<std::size_t>(row)].args());
    std::vector<DrawResult> drawn(rows.size(), DrawResult{TokenId{0}});
    auto scratch = make_scratch(600 + how.between(0, 50), cpu.num_threads());
    const auto memory = std::as_writable_bytes(std::span(scratch));
    REQUIRE(kvpage::sample(cpu, args, drawn, memory).ok());
    std::vector<RowBytes> all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const TokenId token = drawn[i].value();
      RowBytes bytes = bytes_of(&token, 1);
      const auto law = kvpage::sample_law(args[i], memory).value();
      const auto log_softmax = kvpage::LogSoftmax::of(args[i].logits, args[i].vocab_size).value();
      std::array<kvpage::TokenLogProb, 5> top{};
      const std::int64_t num_top = log_softmax.top(top);
      const auto add = [&](const RowBytes& more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
      add(bytes_of(law.weights.data(), std::ssize(law.weights)));
      for (std::int64_t t = 0; t < num_top; ++t) {
        add(bytes_of(&top[static_cast<std::size_t>(t)].id, 1)), add(bytes_of(&top[static_cast<std::size_t>(t)].log_prob, 1));
      }
      all.push_back(std::move(bytes));
    }
    return all;
  }
};

void sample_law(std::int64_t num_pairs) {
  require_law("sample", num_pairs, [](LawRandom& random) { return SampleProblem(random); });
}

}  // namespace

TEST_CASE("bug.B37.law_of_sampling", "[kernels_law]") { sample_law(kPairsPerChange); }
TEST_CASE("bug.B37.many_pairs_of_sampling", "[kernels_law][night]") { sample_law(kPairsPerNight); }

}  // namespace kvpage_test
