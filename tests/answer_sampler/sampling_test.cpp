// Draws through the engine: their law, their independence, and what clients are told about them.
#include "answer_sampler/engine_fixture.hpp"
#include "support/chi_square.hpp"

#include <kvpage/kernels/sample/cpu_log_probs.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace kvpage_test;

namespace {

const std::vector<float> kLogits{1.0f, 0.2f, -0.5f, 1.7f, 0.9f, 0.0f, -1.0f, 1.2f, 0.6f, -0.2f, 1.4f, 0.3f};

/// Probabilities at a temperature, in doubles.
std::vector<double> law_at(double temperature) {
  std::vector<double> law;
  for (const float x : kLogits) law.push_back(std::exp(static_cast<double>(x) / temperature));
  const double total = std::accumulate(law.begin(), law.end(), 0.0);
  for (double& p : law) p /= total;
  return law;
}

/// `law` without the tokens for which `gone` holds.
template <class Predicate>
std::vector<double> without(std::vector<double> law, Predicate gone) {
  for (double& p : law) p = gone(p) ? 0.0 : p;
  const double total = std::accumulate(law.begin(), law.end(), 0.0);
  for (double& p : law) p /= total;
  return law;
}

/// The probability of the least likely token of the smallest set that has `mass`.
double least_kept(std::vector<double> law, double mass) {
  std::sort(law.begin(), law.end(), std::greater<>{});
  double sum = 0;
  for (const double p : law) {
    sum += p;
    if (sum >= mass) return p;
  }
  return 0;
}

/// 64 requests, 16 answers each, 32 tokens each: 32,768 draws.
std::vector<int> count_tokens(EngineFixture& f, const GenerationRequest& request) {
  std::vector<RequestId> ids;
  for (int i = 0; i < 64; ++i) ids.push_back(f.submit(request));  // seeds from the environment
  f.run();
  std::vector<int> counts(kLogits.size());
  for (const auto id : ids) {
    for (const Answer& answer : f.answers(id)) {
      for (const TokenId token : answer.ids) ++counts[token];
    }
  }
  return counts;
}
constexpr int kDraws = 64 * 16 * 32;

GenerationRequest sampling_request(const kvpage::SamplingParams& params) {
  return {.prompt_ids = {1, 2, 3}, .max_tokens = 32, .sampling = params, .n = 16};
}

}  // namespace

TEST_CASE("answer_sampler.law.draws_of_the_engine_follow_it", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 12}, constant_logits(kLogits));
  const auto flat = law_at(1);
  const auto at = [&](const kvpage::SamplingParams& params) { return count_tokens(f, sampling_request(params)); };
  CHECK(chi_square_sigmas(at({}), flat, kDraws) < 5);
  CHECK(chi_square_sigmas(at({.temperature = 0.6f}), law_at(0.6), kDraws) < 5);
  CHECK(chi_square_sigmas(at({.temperature = 2.5f}), law_at(2.5), kDraws) < 5);
  const double largest = *std::max_element(flat.begin(), flat.end());
  CHECK(chi_square_sigmas(at({.min_p = 0.3f}), without(flat, [&](double p) { return p < 0.3 * largest; }), kDraws) < 5);
  const double least = least_kept(flat, 0.8);
  CHECK(chi_square_sigmas(at({.top_p = 0.8f}), without(flat, [&](double p) { return p < least; }), kDraws) < 5);
  auto sorted = flat;
  std::sort(sorted.begin(), sorted.end(), std::greater<>{});
  CHECK(chi_square_sigmas(at({.top_k = 5}), without(flat, [&](double p) { return p < sorted[4]; }), kDraws) < 5);
}

TEST_CASE("answer_sampler.law.the_check_rejects_a_slightly_wrong_law", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 12}, constant_logits(kLogits));
  CHECK(chi_square_sigmas(count_tokens(f, sampling_request({.temperature = 1.06f})), law_at(1), kDraws) > 5);
}

TEST_CASE("answer_sampler.law.temperature_last_filters_at_temperature_one", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 12}, constant_logits(kLogits));
  const auto flat = law_at(1);
  const double largest = *std::max_element(flat.begin(), flat.end());
  auto expected = law_at(2);
  for (std::size_t id = 0; id < flat.size(); ++id) expected[id] = flat[id] < 0.4 * largest ? 0.0 : expected[id];
  GenerationRequest request = sampling_request({.temperature = 2, .min_p = 0.4f});
  request.temperature_last = true;
  CHECK(chi_square_sigmas(count_tokens(f, request), without(expected, [](double) { return false; }), kDraws) < 5);
}

TEST_CASE("answer_sampler.law.answers_of_one_request_are_independent", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 4}, constant_logits({0.5f, 0.0f, 0.3f, -0.4f}));
  GenerationRequest request{.prompt_ids = {1}, .max_tokens = 8'000, .n = 3};
  request.seed = 77;
  const auto answers = f.generate(request);
  double total = 0;
  std::vector<double> single;
  for (const double x : {0.5, 0.0, 0.3, -0.4}) single.push_back(std::exp(x)), total += single.back();
  std::vector<double> joint;
  for (const double a : single) {
    for (const double b : single) joint.push_back(a * b / total / total);
  }
  const auto pairs = [&](const Ids& a, const Ids& b) {
    std::vector<int> counts(16);
    for (std::size_t i = 0; i < a.size(); ++i) ++counts[a[i] * 4 + b[i]];
    return chi_square_sigmas(counts, joint, static_cast<int>(a.size()));
  };
  CHECK(pairs(answers[0].ids, answers[1].ids) < 5);
  CHECK(pairs(answers[1].ids, answers[2].ids) < 5);
  Ids next(answers[0].ids.begin() + 1, answers[0].ids.end());  // a token and the one behind it
  next.push_back(answers[0].ids.front());
  CHECK(pairs(answers[0].ids, next) < 5);
}

TEST_CASE("answer_sampler.best_of.keeps_the_likeliest_answers", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 24}, hashed_logits(3), {5});
  GenerationRequest request{.prompt_ids = {1, 2}, .max_tokens = 20, .seed = 9, .n = 12, .num_logprobs = 0};
  std::vector<std::pair<double, Ids>> all;
  int ended = 0;
  for (const Answer& answer : f.generate(request)) {
    double sum = 0;
    for (const auto& token : answer.logprobs) sum += static_cast<double>(token.chosen.logprob);
    CHECK(answer.sum_logprob == Approx(sum).margin(1e-4));
    auto drawn = static_cast<double>(answer.ids.size());
    if (answer.finish == FinishReason::kStop) {  // the end token counts: it was drawn behind the last one
      std::vector<float> row(24);
      hashed_logits(3)(answer.ids.empty() ? 2 : answer.ids.back(), 1 + static_cast<std::int64_t>(answer.ids.size()), row);
      sum += static_cast<double>(kvpage::LogSoftmax::of(row.data(), 24)->log_prob(5));
      ++drawn, ++ended;
    }
    all.emplace_back(-sum / drawn, answer.ids);
  }
  CHECK((ended > 2 && ended < 10));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  request.best_of = 12;
  request.n = 4;
  request.num_logprobs = -1;
  const auto id = f.submit(request);
  f.run();
  REQUIRE(f.answers(id).size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(f.answer(id, i).ids == all[i].second);
  CHECK(f.streams.count({id.value, 0}) == 0);
  CHECK(f.answer(id).logprobs.empty());
}

TEST_CASE("answer_sampler.logprobs.are_those_of_the_raw_law", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 12}, constant_logits(kLogits));
  GenerationRequest request{.prompt_ids = {1}, .max_tokens = 30, .sampling = {.temperature = 0.3f, .top_k = 6}, .num_logprobs = 3};
  request.sampling.frequency_penalty = 0.7f;
  request.logit_bias = {{2, 4.0f}};
  const auto id = f.submit(request);
  f.run();
  const auto law = law_at(1);
  const Answer& answer = f.answer(id);
  REQUIRE(answer.logprobs.size() == 30);
  REQUIRE(f.stream(id).logprobs.size() == 30);
  double sum = 0;
  for (std::size_t i = 0; i < answer.logprobs.size(); ++i) {
    const auto& entry = answer.logprobs[i];
    CHECK(entry.chosen.id == answer.ids[i]);
    CHECK(static_cast<double>(entry.chosen.logprob) == Approx(std::log(law[entry.chosen.id])));
    REQUIRE(entry.top.size() == 3);
    CHECK((entry.top[0].id == 3 && entry.top[1].id == 10 && entry.top[2].id == 7));
    CHECK(static_cast<double>(entry.top[1].logprob) == Approx(std::log(law[10])));
    CHECK(f.stream(id).logprobs[i].chosen.logprob == entry.chosen.logprob);
    sum += std::log(law[entry.chosen.id]);
  }
  CHECK(answer.sum_logprob == Approx(sum));
  request.num_logprobs = -1;
  CHECK(f.generate(request).at(0).sum_logprob == 0);
}
