/// \file Log-probabilities against long double, and the order of the most likely tokens.
#include "support/catch.hpp"

#include <kvpage/kernels/sample/cpu_log_probs.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace {

using namespace kvpage;
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(std::size_t vocab_size, std::uint32_t seed, bool with_ties) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 5.0f);
  std::vector<float> logits(vocab_size);
  for (float& x : logits) x = with_ties ? std::round(normal(random)) : normal(random);
  return logits;
}

LogSoftmax log_softmax(const std::vector<float>&& logits) = delete;  // it views the logits
LogSoftmax log_softmax(const std::vector<float>& logits) {
  return LogSoftmax::of(logits.data(), static_cast<std::int64_t>(logits.size())).value();
}

long double exact_log_sum(const std::vector<float>& logits) {
  long double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<long double>(x));
  return std::log(sum);
}

}  // namespace

TEST_CASE("sample.log_probs.match_long_double", "[sample]") {
  for (const std::size_t vocab_size : {1u, 2u, 1'000u, 16'384u, 16'385u, 151'936u}) {
    const auto logits = random_logits(vocab_size, 17, false);
    const LogSoftmax law = log_softmax(logits);
    const long double log_sum = exact_log_sum(logits);
    double worst = 0.0;
    for (std::size_t id = 0; id < vocab_size; ++id) {
      const auto exact = static_cast<double>(static_cast<long double>(logits[id]) - log_sum);
      worst = std::max(worst, std::abs(law.log_prob(static_cast<TokenId>(id)) - exact));
    }
    INFO("vocab_size " << vocab_size);
    CHECK(worst < 1e-12);
  }
}

TEST_CASE("sample.log_probs.sum_is_folded_in_runs_in_order", "[sample]") {
  const auto logits = random_logits(40'000, 18, false);
  const double max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0.0;
  for (std::size_t begin = 0; begin < logits.size(); begin += 16'384) {
    double run = 0.0;
    for (std::size_t id = begin; id < std::min<std::size_t>(begin + 16'384, logits.size()); ++id) {
      run += std::exp(static_cast<double>(logits[id]) - max);
    }
    sum += run;
  }
  CHECK(log_softmax(logits).log_prob(39'999) == static_cast<double>(logits[39'999]) - max - std::log(sum));
}

TEST_CASE("sample.log_probs.top_is_sorted_with_ties_to_the_lowest_id", "[sample]") {
  for (const bool with_ties : {false, true}) {
    const auto logits = random_logits(5'000, 19, with_ties);
    const LogSoftmax law = log_softmax(logits);
    std::vector<TokenId> order(logits.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
    for (const std::size_t n : {0u, 1u, 2u, 10u, 1'000u, 5'000u, 6'000u}) {
      std::vector<TokenLogProb> top(n, {0xFFFF'FFFF, 1.0});
      const auto written = static_cast<std::size_t>(law.top(top));
      REQUIRE(written == std::min(n, logits.size()));
      bool equal = true;
      for (std::size_t i = 0; i < written; ++i) equal &= top[i].id == order[i] && top[i].log_prob == law.log_prob(order[i]);
      for (std::size_t i = written; i < n; ++i) equal &= top[i].id == 0xFFFF'FFFF;
      INFO("n " << n << ", ties " << with_ties);
      CHECK(equal);
    }
    CHECK(law.argmax().id == order[0]);
    CHECK(law.argmax().log_prob == law.log_prob(order[0]));
  }
}

TEST_CASE("sample.log_probs.are_always_finite", "[sample]") {
  const std::vector<float> logits{-kInf, 3.0f, -kInf, -3e38f, 3.0f};
  const LogSoftmax law = log_softmax(logits);
  CHECK(law.log_prob(0) == kLogProbFloor);
  CHECK(law.log_prob(3) == kLogProbFloor);
  CHECK(law.log_prob(1) == Approx(-std::log(2.0)));
  CHECK(law.argmax().id == 1);
  TokenLogProb top[5];
  REQUIRE(law.top(top) == 5);
  const std::vector<TokenId> want{1, 4, 3, 0, 2};
  for (std::size_t i = 0; i < 5; ++i) CHECK(top[i].id == want[i]);
  CHECK(top[4].log_prob == kLogProbFloor);
  const std::vector<float> far_apart{3e38f, -3e38f};
  CHECK(log_softmax(far_apart).log_prob(0) == 0.0);
  const std::vector<float> all_low(7, -1e30f);
  CHECK(log_softmax(all_low).log_prob(6) == Approx(-std::log(7.0)));
}

TEST_CASE("sample.log_probs.bad_rows_are_errors", "[sample]") {
  using Kind = SampleError::Kind;
  const float bad[3] = {1.0f, std::numeric_limits<float>::quiet_NaN(), kInf};
  CHECK(LogSoftmax::of(bad, 3).error() == SampleError{Kind::kBadLogit, 1});
  CHECK(LogSoftmax::of(bad + 2, 1).error() == SampleError{Kind::kBadLogit, 0});
  const float never[2] = {-kInf, -kInf};
  CHECK(LogSoftmax::of(never, 2).error() == SampleError{Kind::kNothingAllowed});
  CHECK(LogSoftmax::of(bad, 0).error().kind == Kind::kBadArguments);
  CHECK(LogSoftmax::of(nullptr, 3).error().kind == Kind::kBadArguments);
  CHECK(LogSoftmax::of(bad, kMaxVocabSize + 1).error().kind == Kind::kBadArguments);
}
