// What is refused, and that every refusal names its field.
#include "answer_sampler/engine_fixture.hpp"
#include "engine/sampling/check_request.hpp"

#include <functional>
#include <limits>

using namespace kvpage_test;
using kvpage::engine::check_request;

namespace {

/// A change to a good request, the field that the refusal must name, and the two numbers.
struct BadField {
  const char* field;
  std::function<void(GenerationRequest&)> change;
  std::int64_t value = 0;
  std::int64_t limit = 0;
};

const std::vector<BadField>& bad_fields() {
  static const std::vector<BadField> kFields{
      {"prompt_ids", [](auto& r) { r.prompt_ids = {1, 16}; }, 16, 16},
      {"max_tokens", [](auto& r) { r.max_tokens = 0; }, 0, 1},
      {"min_tokens", [](auto& r) { r.min_tokens = -1; }, -1, 0},
      {"min_tokens", [](auto& r) { r.min_tokens = 17; }, 17, 16},
      {"num_logprobs", [](auto& r) { r.num_logprobs = 21; }, 21, 20},
      {"num_logprobs", [](auto& r) { r.num_logprobs = -2; }, -2, 20},
      {"n must", [](auto& r) { r.n = 0; }, 0, 128},
      {"n must", [](auto& r) { r.n = 129; }, 129, 128},
      {"best_of", [](auto& r) { r.n = 3, r.best_of = 2; }, 2, 3},
      {"best_of", [](auto& r) { r.best_of = 129; }, 129, 128},
      {"best_of", [](auto& r) { r.best_of = -1; }, -1, 1},
      {"beam_width", [](auto& r) { r.sampling.temperature = 0, r.n = 3, r.beam_width = 2; }, 2, 3},
      {"beam_width", [](auto& r) { r.sampling.temperature = 0, r.beam_width = -2; }, -2, 1},
      {"temperature", [](auto& r) { r.sampling.temperature = 0.5f, r.beam_width = 2; }, 1, 0},
      {"temperature", [](auto& r) { r.sampling.temperature = 3, r.beam_width = 2; }, 3, 0},
      {"best_of", [](auto& r) { r.sampling.temperature = 0, r.beam_width = 2, r.best_of = 2; }, 2, 0},
      {"length_penalty", [](auto& r) { r.sampling.temperature = 0, r.beam_width = 2, r.length_penalty = std::nan(""); }, 0, 16},
      {"length_penalty", [](auto& r) { r.sampling.temperature = 0, r.beam_width = 2, r.length_penalty = 16.5; }, 17, 16},
      {"length_penalty", [](auto& r) { r.sampling.temperature = 0, r.beam_width = 2, r.length_penalty = -1e300; },
       -9'000'000'000'000'000'000, 16},
      {"temperature", [](auto& r) { r.sampling.temperature = -1; }, 0, 0},
      {"min_p", [](auto& r) { r.sampling.min_p = 1.5f; }, 0, 0},
      {"top_k", [](auto& r) { r.sampling.top_k = -2; }, -2, -1},
      {"top_p", [](auto& r) { r.sampling.top_p = std::numeric_limits<float>::quiet_NaN(); }, 0, 0},
      {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 0; }, 0, 0},
      {"presence_penalty", [](auto& r) { r.sampling.presence_penalty = std::numeric_limits<float>::infinity(); }, 0, 0},
      {"frequency_penalty", [](auto& r) { r.sampling.frequency_penalty = std::numeric_limits<float>::quiet_NaN(); }, 0, 0},
      {"logit_bias", [](auto& r) { r.logit_bias = {{16, 0.0f}}; }, 16, 16},
      {"logit_bias", [](auto& r) { r.logit_bias = {{3, 0.0f}, {15, 1e9f}}; }, 1'000'000'000, 100},  // bug B56
      {"logit_bias", [](auto& r) { r.logit_bias = {{15, -100.5f}}; }, -101, 100},
      {"logit_bias", [](auto& r) { r.logit_bias = {{15, std::numeric_limits<float>::quiet_NaN()}}; }, 0, 100},
      {"stop_tokens", [](auto& r) { r.stop_tokens = {3, 99}; }, 99, 16},
      {"stop_tokens", [](auto& r) { r.stop_tokens.assign(257, 1); }, 257, 256},
      {"stop_strings", [](auto& r) { r.stop_strings = {"a", ""}; }, 0, 1},
      {"stop_strings", [](auto& r) { r.stop_strings = {std::string(1'025, 'x')}; }, 1'025, 1'024},
      {"stop_strings", [](auto& r) { r.stop_strings.assign(65, "x"); }, 65, 64},
  };
  return kFields;
}

}  // namespace

TEST_CASE("answer_sampler.check.each_field_is_refused_by_its_name", "[answer_sampler]") {
  const GenerationRequest good{.prompt_ids = {1, 15}};
  CHECK(check_request(good, 16, true));
  for (const BadField& bad : bad_fields()) {
    GenerationRequest request = good;
    bad.change(request);
    const auto checked = check_request(request, 16, true);
    INFO(bad.field);
    REQUIRE(!checked);
    CHECK(checked.error().kind == kvpage::RefusalKind::kBadParameter);
    CHECK(std::string(checked.error().what).find(bad.field) != std::string::npos);
    CHECK(checked.error().value == bad.value);
    CHECK(checked.error().limit == bad.limit);
  }
  const auto empty = check_request({}, 16, true);
  REQUIRE(!empty);
  CHECK(empty.error().kind == kvpage::RefusalKind::kEmptyPrompt);
}

TEST_CASE("answer_sampler.check.values_at_the_limits_are_good", "[answer_sampler]") {
  GenerationRequest request{.prompt_ids = {0, 15}, .max_tokens = 9, .min_tokens = 9, .n = 128, .best_of = 128, .num_logprobs = 20};
  request.logit_bias = {{15, -100}, {0, 100}};
  request.stop_tokens.assign(256, 15);
  request.stop_strings.assign(64, std::string(1'024, 'x'));
  CHECK(check_request(request, 16, true));
  const auto textless = check_request(request, 16, false);
  REQUIRE(!textless);
  CHECK(std::string(textless.error().what).find("tokenizer") != std::string::npos);
  request.best_of = 0;
  request.beam_width = 128;
  request.sampling.temperature = 0;
  request.length_penalty = -16;
  CHECK(check_request(request, 16, true));
}
