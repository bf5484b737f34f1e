// Public bug reports about samplers, at the engine.
#include "answer_sampler/engine_fixture.hpp"
#include "support/allocation_count.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>

using namespace kvpage_test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

GenerationRequest greedy(std::int64_t max_tokens) {
  return {.prompt_ids = {1}, .max_tokens = max_tokens, .sampling = {.temperature = 0}};
}

}  // namespace

TEST_CASE("bug.B33.a_row_that_is_no_law_ends_its_answer_alone", "[answer_sampler]") {
  for (const float bad : {kNan, kInf}) {
    const LogitsOf table = [bad](TokenId token, std::int64_t position, std::span<float> row) {
      hashed_logits(4)(token, position, row);
      if (token == 6) row[9] = bad;
    };
    EngineFixture f({.vocab_size = 16}, table);
    GenerationRequest request{.prompt_ids = {1, 2}, .max_tokens = 15, .n = 8};
    request.seed = 5;
    const auto id = f.submit(request);
    request.prompt_ids = {1, 6};
    const auto at_once = f.submit(request);
    f.run();
    int failed = 0;
    for (const Answer& answer : f.answers(id)) {
      const auto six = std::find(answer.ids.begin(), answer.ids.end(), 6u);
      const bool met_it = six != answer.ids.end() && answer.ids.size() < 15;
      failed += met_it ? 1 : 0;
      CHECK(answer.finish == (met_it ? FinishReason::kError : FinishReason::kLength));
      if (met_it) CHECK(six == answer.ids.end() - 1);  // it keeps what it had, and token 0 is not drawn instead
    }
    CHECK((failed > 0 && failed < 8));
    for (const Answer& answer : f.answers(at_once)) CHECK((answer.finish == FinishReason::kError && answer.ids.empty()));
  }
}

TEST_CASE("bug.B50.tiny_temperatures_are_greedy_and_bad_ones_are_refused", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 4}, constant_logits({2.875f, 2.955f, 11.0625f, -2.447f}));
  for (const float temperature : {1e-4f, 1e-5f, 1e-12f, 1e-45f, 0.0f}) {
    GenerationRequest request{.prompt_ids = {1}, .max_tokens = 20, .sampling = {.temperature = temperature}, .num_logprobs = 2};
    const Answer answer = f.generate(request).at(0);
    CHECK(answer.ids == Ids(20, 2));
    for (const auto& entry : answer.logprobs) CHECK(std::isfinite(entry.chosen.logprob));
  }
  for (const float temperature : {kNan, kInf, -1.0f, -1e-30f}) {
    const auto refusal = f.refusal({.prompt_ids = {1}, .sampling = {.temperature = temperature}});
    CHECK(refusal.kind == kvpage::RefusalKind::kBadParameter);
    CHECK(std::string(refusal.what).find("temperature") != std::string::npos);
  }
}

TEST_CASE("bug.B52.all_kinds_of_top_k_share_a_step", "[answer_sampler]") {
  const auto table = hashed_logits(2, 40);  // ties at every cut
  std::vector<RequestId> ids;
  EngineFixture together({.vocab_size = 128}, table);
  std::vector<GenerationRequest> requests;
  for (const std::int64_t top_k : {0, -1, 1, 64, 127, 128, 129, 9'999'999}) {
    for (const float top_p : {0.95f, 1.0f}) {
      GenerationRequest request{.prompt_ids = {1, 2}, .max_tokens = 12, .sampling = {.top_k = top_k, .top_p = top_p}};
      request.seed = 3;
      requests.push_back(request);
      ids.push_back(together.submit(request));
    }
  }
  together.run();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    INFO("top_k " << requests[i].sampling.top_k << ", top_p " << requests[i].sampling.top_p);
    EngineFixture alone({.vocab_size = 128}, table);
    CHECK(alone.generate(requests[i]).at(0).ids == together.answer(ids[i]).ids);
    const bool off = requests[i].sampling.top_k != 1 && requests[i].sampling.top_k != 64 && requests[i].sampling.top_k != 127;
    if (off) CHECK(together.answer(ids[i]).ids == together.answer(ids[i % 2]).ids);
  }
  GenerationRequest first = greedy(12);
  first.prompt_ids = {1, 2};
  CHECK(together.answer(ids[4]).ids == together.generate(first).at(0).ids);  // top_k 1
  CHECK(together.refusal({.prompt_ids = {1}, .sampling = {.top_k = -2}}).value == -2);
  CHECK(together.refusal({.prompt_ids = {1}, .num_logprobs = 1'000}).limit == 20);
  CHECK(together.generate(first).size() == 1);
}

TEST_CASE("bug.B53.a_text_is_the_same_alone_and_among_31_others", "[answer_sampler]") {
  const auto table = hashed_logits(6);
  GenerationRequest seeded{.prompt_ids = {3, 1, 4}, .max_tokens = 16, .sampling = {.temperature = 0.8f}};
  seeded.seed = 42;
  EngineFixture single({.vocab_size = 50}, table);
  const Ids alone = single.generate(seeded).at(0).ids;
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    EngineFixture f({.vocab_size = 50, .num_threads = 1 + round % 3}, table);
    std::vector<GenerationRequest> requests{seeded, seeded};  // twice in one batch
    for (int i = 0; i < 30; ++i) {
      requests.push_back({.prompt_ids = Ids(1 + random() % 9, 2), .sampling = {.temperature = 1.5f}});
      requests.back().max_tokens = 1 + static_cast<std::int64_t>(random() % 30);
      if (i % 3 == 0) requests.back().n = 2;
      if (i % 4 == 0) requests.back().seed = random();
    }
    std::shuffle(requests.begin(), requests.end(), random);
    std::vector<RequestId> same;
    for (const auto& request : requests) {
      const auto id = f.submit(request);
      if (request.prompt_ids == seeded.prompt_ids && request.seed == seeded.seed) same.push_back(id);
      if (random() % 4 == 0) f.step();
    }
    REQUIRE(same.size() == 2);
    while (f.num_requests() > 0) {
      f.step();
      if (random() % 8 == 0) f.preempt(same[0]);
    }
    CHECK(f.answer(same[0]).ids == alone);
    CHECK(f.answer(same[1]).ids == alone);
  }
}

TEST_CASE("bug.B54.repetition_sees_the_prompt_and_the_other_penalties_do_not", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 4}, constant_logits({2.0f, -2.0f, 1.7f, 0.0f}));
  GenerationRequest request = greedy(1);
  request.prompt_ids = {0, 0, 1};
  CHECK(f.generate(request).at(0).ids == Ids{0});
  request.sampling.repetition_penalty = 1.2f;  // 2 / 1.2 < 1.7; dividing once more for the second time would not matter here
  CHECK(f.generate(request).at(0).ids == Ids{2});
  request.sampling.repetition_penalty = 1.16f;  // 2 / 1.16 > 1.7 > 2 / 1.16^2: once per id
  CHECK(f.generate(request).at(0).ids == Ids{0});
  request.sampling = {.temperature = 0, .presence_penalty = 0.5f, .frequency_penalty = 0.5f};
  request.max_tokens = 4;  // 2, 1.7, 0: token 0 falls to 1 and then 2 to 0.7, then 0 to 0.5
  CHECK(f.generate(request).at(0).ids == Ids{0, 2, 0, 2});
  for (const float penalty : {0.0f, -1.0f, kNan}) {
    const auto refusal = f.refusal({.prompt_ids = {1}, .sampling = {.repetition_penalty = penalty}});
    CHECK(std::string(refusal.what).find("repetition_penalty") != std::string::npos);
  }
}

TEST_CASE("bug.B56.a_bias_outside_of_the_vocabulary_is_refused_and_harms_nobody", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 16}, hashed_logits(9));
  const Ids before = f.generate(greedy(20)).at(0).ids;
  const auto running = f.submit(greedy(20));
  for (const TokenId id : {16u, 191'222u, 0xFFFF'FFFFu}) {
    f.step();
    GenerationRequest request = greedy(4);
    request.logit_bias = {{15, 1.0f}, {id, 1.0f}};
    const auto refusal = f.refusal(request);
    CHECK(refusal.kind == kvpage::RefusalKind::kBadParameter);
    CHECK((refusal.value == static_cast<std::int64_t>(id) && refusal.limit == 16));
    CHECK(std::string(refusal.what).find("logit_bias") != std::string::npos);
  }
  GenerationRequest request = greedy(4);
  for (const float bias : {kNan, kInf, -kInf, 1e9f, 100.5f, -101.0f}) {
    request.logit_bias = {{3, bias}};
    const auto refusal = f.refusal(request);
    CHECK(std::string(refusal.what).find("logit_bias") != std::string::npos);
    CHECK(refusal.limit == 100);
  }
  request.logit_bias.assign(100'000, {3, 0.0f});
  CHECK(f.refusal(request).limit == 16'384);
  request.logit_bias.assign(10'000, {3, 1e-3f});
  CHECK(f.generate(request).at(0).ids == Ids(4, 3));  // they add up to 10
  request.logit_bias = {{15, 100.0f}, {3, -100.0f}};
  CHECK(f.generate(request).at(0).ids == Ids(4, 15));
  f.run();
  CHECK(f.answer(running).ids == before);
}

TEST_CASE("bug.B57.log_probabilities_are_finite", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 5}, constant_logits({-kInf, 3.0f, -kInf, 2.0f, -kInf}));
  for (const auto& params : {kvpage::SamplingParams{.top_p = 0.3f}, kvpage::SamplingParams{.top_k = 1},
                             kvpage::SamplingParams{.temperature = 0.01f}}) {
    for (const std::int64_t count : {0, 1, 5, 20}) {
      GenerationRequest request{.prompt_ids = {1}, .max_tokens = 6, .sampling = params, .num_logprobs = count};
      request.logit_bias = {{0, 90.0f}};  // what the model rules out stays ruled out
      const Answer answer = f.generate(request).at(0);
      REQUIRE(answer.logprobs.size() == 6);  // present for 0 too
      for (const auto& entry : answer.logprobs) {
        CHECK(entry.chosen.id == 1);
        CHECK(entry.top.size() == static_cast<std::size_t>(std::min<std::int64_t>(count, 5)));
        CHECK(std::isfinite(entry.chosen.logprob));
        for (const auto& likely : entry.top) CHECK(std::isfinite(likely.logprob));
      }
    }
  }
}

TEST_CASE("bug.B59.min_p_sees_probabilities_in_the_order_that_is_stated", "[answer_sampler]") {
  std::vector<float> logits;
  for (const double p : {0.5, 0.3, 0.15, 0.05}) logits.push_back(static_cast<float>(std::log(p)));
  EngineFixture f({.vocab_size = 4}, constant_logits(logits));
  const auto kept = [&](const kvpage::SamplingParams& params, bool temperature_last) {
    GenerationRequest request{.prompt_ids = {1}, .max_tokens = 400, .sampling = params};
    request.temperature_last = temperature_last;
    const Ids ids = f.generate(request).at(0).ids;
    return *std::max_element(ids.begin(), ids.end()) + 1;
  };
  for (const bool last : {false, true}) {
    CHECK(kept({}, last) == 4);
    CHECK(kept({.min_p = 0.4f}, last) == 2);
    CHECK(kept({.min_p = 1}, last) == 1);
    CHECK(kept({.temperature = 2, .min_p = 0.4f}, last) == (last ? 2 : 3));
    CHECK(kept({.min_p = 0.4f, .top_k = 3, .top_p = 0.7f}, last) == 2);
    CHECK(kept({.min_p = 1, .top_k = 1, .top_p = 0}, last) == 1);
  }
}

TEST_CASE("bug.B67.numbers_of_a_request_are_judged_before_anything_is_allocated", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 16}, hashed_logits(9));
  f.generate(greedy(4));
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  std::vector<GenerationRequest> bad;
  for (const std::int64_t n : std::initializer_list<std::int64_t>{0, -1, 129, 1'000'000, std::int64_t{1} << 60, kHuge}) {
    bad.push_back(greedy(4)), bad.back().n = n;
    if (n == 0) continue;
    bad.push_back(greedy(4)), bad.back().best_of = n;
    bad.push_back(greedy(4)), bad.back().beam_width = n;
    bad.push_back(greedy(4)), bad.back().num_logprobs = n == -1 ? -2 : n;
  }
  for (const std::int64_t tokens : std::initializer_list<std::int64_t>{0, -1, -kHuge}) bad.push_back(greedy(tokens));
  for (const std::int64_t tokens : std::initializer_list<std::int64_t>{-1, 5, kHuge}) {
    bad.push_back(greedy(4)), bad.back().min_tokens = tokens;
  }
  const std::size_t before = allocated_bytes();
  for (const GenerationRequest& request : bad) {
    const auto refusal = f.refusal(request);
    if (refusal.kind != kvpage::RefusalKind::kBadParameter || *refusal.what == '\0') FAIL("a number was not refused by its name");
  }
  CHECK(allocated_bytes() == before);
  GenerationRequest most = greedy(std::int64_t{1} << 40);  // clamped by the context
  const auto id = f.submit(most);
  CHECK(allocated_bytes() - before < 1'000'000);
  f.step();
  CHECK(f.cancel(id));
  CHECK(allocated_bytes() - before < 1'000'000);
}
