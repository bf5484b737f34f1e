// The sampler alone, on plans made by hand: what it takes and what it gives back.
#include "answer_sampler/table_model.hpp"
#include "engine/answer_sampler.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "tokenizer/toy_vocabulary.hpp"

using namespace kvpage;
using namespace kvpage_test;
using kvpage::engine::AnswerSampler;
using kvpage::engine::GenerationRequest;
using kvpage::engine::StepOutput;

namespace {

/// The sampler of four requests of every kind that runs long, and their next step.
class SamplerAlone {
 public:
  SamplerAlone()
      : tokenizer_(ToyVocabulary::bpe().make()), model_({.vocab_size = 256}, hashed_logits(7)), sampler_(256, {}, &tokenizer_) {
    std::vector<GenerationRequest> requests(4, {.prompt_ids = {1, 2}, .max_tokens = 400});
    requests[1].sampling = {.temperature = 0.7f, .min_p = 0.01f, .top_k = 40, .top_p = 0.9f};
    requests[1].stop_strings = {"no such text"};
    requests[2].sampling = {.temperature = 0, .repetition_penalty = 1.1f, .frequency_penalty = 0.1f};
    requests[2].logit_bias = {{3, 1.0f}};
    requests[3].best_of = 3;
    for (std::uint64_t id = 0; id < 4; ++id) {
      sampler_.begin(RequestId{id}, requests[id]);
      for (std::uint32_t child = 0; child < (id == 3 ? 3u : 1u); ++child) {
        const auto row = static_cast<std::int64_t>(plan_.samples.size());
        plan_.samples.push_back({.logit_index = row, .request = RequestId{id}, .child = child, .position = 2});
        plan_.logit_rows.push_back(row);
        plan_.tokens.push_back(2), plan_.positions.push_back(1);
      }
    }
    results_.resize(plan_.samples.size());
  }

  /// Draws several times before the tokens count.
  void step(int draws = 1) {
    output_.clear();
    REQUIRE(model_.forward(plan_).ok());
    for (int i = 0; i < draws; ++i) REQUIRE(sampler_.sample(plan_, model_, results_).ok());
    for (std::size_t s = 0; s < results_.size(); ++s) {
      PlannedSample& sample = plan_.samples[s];
      sampler_.on_event({.request = sample.request, .child = sample.child, .has_token = true, .token = results_[s].token}, output_);
      plan_.tokens[s] = results_[s].token;
      plan_.positions[s] = sample.position++;
    }
  }

  std::vector<engine::Answer> finish() {
    std::vector<engine::Answer> all;
    for (const PlannedSample& sample : plan_.samples) {
      sampler_.on_event({.request = sample.request, .child = sample.child, .finish = FinishReason::kCancelled}, output_);
    }
    for (std::uint64_t id = 0; id < 4; ++id) {
      for (engine::Answer& answer : sampler_.finish(RequestId{id})) all.push_back(std::move(answer));
    }
    return all;
  }

 private:
  engine::Tokenizer tokenizer_;
  TableModel model_;
  AnswerSampler sampler_;
  BatchPlan plan_;
  std::vector<SampleResult> results_;
  StepOutput output_;
};

}  // namespace

TEST_CASE("answer_sampler.memory.a_step_allocates_nothing", "[answer_sampler]") {
  SamplerAlone alone;
  for (int i = 0; i < 50; ++i) alone.step();
  const std::size_t before = allocated_bytes();
  for (int i = 0; i < 300; ++i) alone.step();
  CHECK(allocated_bytes() == before);
}

TEST_CASE("answer_sampler.memory.a_step_that_is_drawn_again_counts_once", "[answer_sampler]") {
  SamplerAlone once;
  SamplerAlone again;
  for (int i = 0; i < 40; ++i) once.step(), again.step(1 + i % 3);
  const auto wanted = once.finish();
  const auto got = again.finish();
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i].ids.size() == 40);
    CHECK(got[i].ids == wanted[i].ids);
    CHECK(got[i].text == wanted[i].text);
  }
}

TEST_CASE("answer_sampler.memory.a_finished_request_is_forgotten", "[answer_sampler]") {
  AnswerSampler sampler(16, {}, nullptr);
  StepOutput output;
  for (int i = 0; i < 3; ++i) {  // an id is in flight once
    sampler.begin(RequestId{5}, {.prompt_ids = {1}, .n = 2});
    sampler.on_event({.request = RequestId{5}, .child = 0, .finish = FinishReason::kCancelled}, output);
    sampler.on_event({.request = RequestId{5}, .child = 1, .finish = FinishReason::kDeadline, .last = true}, output);
    const auto answers = sampler.finish(RequestId{5});
    REQUIRE(answers.size() == 2);
    CHECK(answers[0].finish == FinishReason::kCancelled);
    CHECK(answers[1].finish == FinishReason::kDeadline);
    CHECK(answers[0].ids.empty());
  }
  CHECK(output.tokens.empty());
}

TEST_CASE("answer_sampler.memory.impossible_vocabularies_are_refused", "[answer_sampler]") {
  const auto tokenizer = ToyVocabulary::bpe().make();
  CHECK_THROWS_AS(AnswerSampler(257, {}, &tokenizer), ConfigError);
  CHECK_THROWS_AS(AnswerSampler(0, {}, nullptr), ConfigError);
  CHECK_THROWS_AS(AnswerSampler((std::int64_t{1} << 19) + 1, {}, nullptr), ConfigError);
}
