/// \file The comparator of golden rows accepts the golden numbers and rejects each that is altered.
#include "golden/greedy_comparator.hpp"

namespace kvpage_test {
namespace {

using kvpage::engine::Score;

/// The score that says exactly what the row says.
Score perfect_score(const GreedyRow& row) {
  Score score;
  score.prompt_nll = row.prompt_nll;
  score.first_top10 = row.first_top10;
  for (std::size_t i = 0; i < row.greedy_ids.size(); ++i) {
    const double logprob = row.logprob_and_margin[i].first;
    score.continuation.push_back({row.greedy_ids[i], logprob, row.greedy_ids[i], logprob});
  }
  return score;
}

bool accepts(const Tolerance& tolerance, const GreedyRow& row, const Score& score) {
  return GreedyComparator(tolerance).faults(row, score).empty();
}

/// The first step whose golden margin lies in [low, high).
std::size_t step_with_margin(const GreedyRow& row, double low, double high) {
  for (std::size_t i = 0; i < row.logprob_and_margin.size(); ++i) {
    if (row.logprob_and_margin[i].second >= low && row.logprob_and_margin[i].second < high) return i;
  }
  FAIL("no step has such a margin");
  return 0;
}

GreedyRow fox() { return row_named(read_greedy_rows("smollm2"), "fox"); }

}  // namespace

TEST_CASE("golden.comparator.accepts_the_golden_numbers", "[golden]") {
  for (const char* model : {"smollm2", "gemma3", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"}) {
    for (const Tolerance& tolerance : {kDoubleTolerance, kFloatTolerance, kInt8Tolerance}) {
      GreedyComparator comparator(tolerance);
      for (const GreedyRow& row : read_greedy_rows(model)) CHECK(comparator.faults(row, perfect_score(row)).empty());
      CHECK(comparator.file_faults().empty());
    }
  }
}

TEST_CASE("golden.comparator.rejects_one_altered_number", "[golden]") {
  const GreedyRow row = fox();
  for (const Tolerance& tolerance : {kDoubleTolerance, kFloatTolerance, kInt8Tolerance}) {
    INFO(tolerance.kernels);
    Score score = perfect_score(row);
    score.continuation[3].id ^= 1;
    CHECK_FALSE(accepts(tolerance, row, score));
    score = perfect_score(row);
    score.prompt_nll += std::max(1.1 * tolerance.row_share * row.prompt_nll, 1.1 * tolerance.row_nat) + 2 * kPrinted;
    CHECK_FALSE(accepts(tolerance, row, score));
    score.prompt_nll = std::nan("");
    CHECK_FALSE(accepts(tolerance, row, score));
    score = perfect_score(row);
    score.continuation[5].logprob -= 1.1 * tolerance.logprob;
    CHECK_FALSE(accepts(tolerance, row, score));
    score = perfect_score(row);
    score.continuation.pop_back();
    CHECK_FALSE(accepts(tolerance, row, score));
    score = perfect_score(row);
    score.first_top10[0].first = 49'151;
    CHECK_FALSE(accepts(tolerance, row, score));
    score = perfect_score(row);
    score.first_top10[2].second += 1.1 * tolerance.logprob;
    CHECK_FALSE(accepts(tolerance, row, score));
  }
}

TEST_CASE("golden.comparator.argmax_counts_from_the_margin_on", "[golden]") {
  const GreedyRow row = fox();
  for (const Tolerance& tolerance : {kFloatTolerance, kInt8Tolerance}) {
    Score score = perfect_score(row);
    score.continuation[step_with_margin(row, 0, tolerance.min_margin)].argmax ^= 1;
    CHECK(accepts(tolerance, row, score));
    score.continuation[step_with_margin(row, tolerance.min_margin, 100)].argmax ^= 1;
    CHECK_FALSE(accepts(tolerance, row, score));
  }
}

TEST_CASE("golden.comparator.small_errors_of_all_rows_add_up", "[golden]") {
  GreedyComparator comparator(kInt8Tolerance);
  for (const GreedyRow& row : read_greedy_rows("smollm2")) {
    Score score = perfect_score(row);
    score.prompt_nll *= 1.01;  // each row is within 2 %, their sum not within 0.5 %
    CHECK(comparator.faults(row, score).empty());
  }
  CHECK(comparator.file_faults().size() == 1);
}

}  // namespace kvpage_test
