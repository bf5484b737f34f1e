/// \file Log-probabilities of a raw logits row: of one token, of the most likely one, of the N most likely ones.
#pragma once

#include <kvpage/kernels/sample/cpu_adjust_logits.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The least log-probability reported: a token that the model rules out has no finite one, and JSON no infinity.
inline constexpr double kLogProbFloor = -9999.0;

/// A token with its natural-log probability under the raw logits (temperature 1, no filters).
struct TokenLogProb {
  TokenId id;
  double log_prob;
};

/// log-softmax of one row of raw logits, evaluated per token. Views the logits, does not own them.
/// Threads: const.
class LogSoftmax {
 public:
  /// Errors: kBadLogit for the first NaN or +infinity, kNothingAllowed if no logit is finite, kBadArguments unless
  /// 1 <= vocab_size <= kMaxVocabSize.
  /// Ensures: the same bits for the same row on the same machine: doubles, summed in runs of 16,384 ids, runs folded in order.
  [[nodiscard]] static Expected<LogSoftmax, SampleError> of(const float* logits, std::int64_t vocab_size) noexcept {
    using Kind = SampleError::Kind;
    if (logits == nullptr || vocab_size < 1 || vocab_size > kMaxVocabSize) return Unexpected{SampleError{Kind::kBadArguments}};
    if (const auto bad = detail::find_bad_logit(logits, vocab_size); bad < vocab_size) {
      return Unexpected{SampleError{Kind::kBadLogit, static_cast<TokenId>(bad)}};
    }
    const auto max = detail::find_max(logits, vocab_size);
    if (max.logit == -detail::kInfinity) return Unexpected{SampleError{Kind::kNothingAllowed}};
    double sum = 0.0;
    for (std::int64_t begin = 0; begin < vocab_size; begin += kRunLength) {
      sum += run_sum(logits, begin, std::min(vocab_size, begin + kRunLength), static_cast<double>(max.logit));
    }
    return LogSoftmax(logits, vocab_size, max, std::log(sum));
  }

  /// Natural log of the probability of `id`, at least kLogProbFloor. Requires: id < vocab_size.
  [[nodiscard]] double log_prob(TokenId id) const noexcept {
    KVPAGE_ASSERT(id < vocab_size_, "a token id lies inside the vocabulary");
    return std::max(kLogProbFloor, static_cast<double>(logits_[id]) - static_cast<double>(max_.logit) - log_sum_);
  }

  /// The most likely token; ties go to the lowest id.
  [[nodiscard]] TokenLogProb argmax() const noexcept { return {max_.id, log_prob(max_.id)}; }

  /// Fills `out` [n] with the n most likely tokens, most likely first, ties by the lower id; returns min(n, vocab_size),
  /// the number written. Cost: O(vocab_size * log n), no allocation.
  [[nodiscard]] std::int64_t top(std::span<TokenLogProb> out) const noexcept {
    const std::int64_t n = std::min(vocab_size_, static_cast<std::int64_t>(out.size()));
    if (n == 0) return 0;
    const auto first = out.begin();
    // While collecting, `log_prob` holds the logit itself: exact, and ordered also below the floor.
    const auto more_likely = [](const TokenLogProb& a, const TokenLogProb& b) {
      return a.log_prob > b.log_prob || (a.log_prob == b.log_prob && a.id < b.id);
    };
    for (std::int64_t id = 0; id < vocab_size_; ++id) {
      const TokenLogProb entry{static_cast<TokenId>(id), static_cast<double>(logits_[id])};
      if (id < n) {
        first[id] = entry;
        if (id == n - 1) std::make_heap(first, first + n, more_likely);
      } else if (more_likely(entry, *first)) {
        std::pop_heap(first, first + n, more_likely);
        first[n - 1] = entry;
        std::push_heap(first, first + n, more_likely);
      }
    }
    std::sort_heap(first, first + n, more_likely);
    for (std::int64_t i = 0; i < n; ++i) first[i].log_prob = log_prob(first[i].id);
    return n;
  }

 private:
  static constexpr std::int64_t kRunLength = 16'384;

  LogSoftmax(const float* logits, std::int64_t vocab_size, detail::Candidate max, double log_sum) noexcept
      : logits_(logits), vocab_size_(vocab_size), max_(max), log_sum_(log_sum) {}

  static double run_sum(const float* logits, std::int64_t begin, std::int64_t end, double max) noexcept {
    double sum = 0.0;
    for (std::int64_t id = begin; id < end; ++id) sum += std::exp(static_cast<double>(logits[id]) - max);
    return sum;
  }

  const float* logits_;  // [vocab_size]
  std::int64_t vocab_size_;
  detail::Candidate max_;
  double log_sum_;
};

KVPAGE_END_NAMESPACE
