/// \file GreedyComparator: what is wrong with the scores of golden rows, in words.
#pragma once

#include "engine/scoring.hpp"
#include "golden/greedy_rows.hpp"
#include "golden/greedy_tolerance.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

namespace kvpage_test {

/// Compares row by row and adds up what concerns the whole file.
class GreedyComparator {
 public:
  explicit GreedyComparator(const Tolerance& tolerance) : tolerance_(tolerance) {}

  /// Faults of one row's score, in which the row's own greedy ids were fed.
  std::vector<std::string> faults(const GreedyRow& row, const kvpage::engine::Score& score) {
    faults_.clear();
    name_ = row.name;
    const double nll_limit = std::max(tolerance_.row_share * row.prompt_nll, tolerance_.row_nat) + kPrinted;
    expect_near("prompt_nll", score.prompt_nll, row.prompt_nll, nll_limit);
    compare_top10(row, score);
    compare_steps(row, score);
    ++rows_;
    nll_ += score.prompt_nll, golden_nll_ += row.prompt_nll;
    return faults_;
  }

  /// Faults of the sums over all rows so far.
  std::vector<std::string> file_faults() {
    faults_.clear();
    name_ = "all rows";
    expect_near("sum of prompt_nll", nll_, golden_nll_, tolerance_.sum_share * golden_nll_ + kPrinted * static_cast<double>(rows_));
    return faults_;
  }

  std::size_t rows() const { return rows_; }

  /// Mean |error| of a log-probability over all steps so far.
  double mean_error() const { return logprob_error_ / static_cast<double>(std::max<std::size_t>(steps_, 1)); }

  std::string summary() const {
    std::ostringstream text;
    text << tolerance_.kernels << ", prompt_nll " << nll_ << " (golden " << golden_nll_ << "), " << steps_ << " steps, argmax differs "
         << differing_ << " times, mean |log-probability error| " << mean_error();
    return text.str();
  }

 private:
  void expect_near(const std::string& what, double got, double want, double limit) {
    if (std::fabs(got - want) <= limit) return;  // false for NaN
    std::ostringstream text;
    text.precision(9);
    text << name_ << ": " << what << " is " << got << ", golden " << want << ", allowed +-" << limit;
    faults_.push_back(text.str());
  }

  /// Ids that only one list has must be near its end.
  void compare_top10(const GreedyRow& row, const kvpage::engine::Score& score) {
    if (score.first_top10.size() != row.first_top10.size() || score.first_top10.empty()) {
      faults_.push_back(name_ + ": first_top10 has " + std::to_string(score.first_top10.size()) + " entries");
      return;
    }
    const double last = score.first_top10.back().second;
    for (const auto& [id, logprob] : row.first_top10) {
      const auto is_same = [id = id](const auto& entry) { return entry.first == id; };
      const auto found = std::find_if(score.first_top10.begin(), score.first_top10.end(), is_same);
      const double got = found != score.first_top10.end() ? found->second : std::min(last, logprob);
      expect_near("first_top10 of id " + std::to_string(id), got, logprob, tolerance_.logprob + kPrinted);
    }
  }

  void compare_steps(const GreedyRow& row, const kvpage::engine::Score& score) {
    if (score.continuation.size() != row.greedy_ids.size()) {
      faults_.push_back(name_ + ": " + std::to_string(score.continuation.size()) + " steps were scored");
      return;
    }
    for (std::size_t i = 0; i < row.greedy_ids.size(); ++i) {
      const auto& token = score.continuation[i];
      const auto& [logprob, margin] = row.logprob_and_margin[i];
      const std::string step = "step " + std::to_string(i);
      if (token.id != row.greedy_ids[i]) faults_.push_back(name_ + ", " + step + ": another id was scored");
      expect_near(step + " log-probability", token.logprob, logprob, tolerance_.logprob + kPrinted);
      const bool differs = token.argmax != row.greedy_ids[i];
      if (differs && margin >= tolerance_.min_margin) {
        faults_.push_back(name_ + ", " + step + ": argmax is " + std::to_string(token.argmax) + ", golden " +
                          std::to_string(row.greedy_ids[i]) + " with margin " + std::to_string(margin));
      }
      ++steps_, differing_ += differs, logprob_error_ += std::fabs(token.logprob - logprob);
    }
  }

  Tolerance tolerance_;
  std::string name_;
  std::vector<std::string> faults_;
  std::size_t rows_ = 0, steps_ = 0, differing_ = 0;
  double nll_ = 0, golden_nll_ = 0, logprob_error_ = 0;
};

}  // namespace kvpage_test
