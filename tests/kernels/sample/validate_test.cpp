/// \file What the sampler refuses: every parameter outside its range, ids outside the vocabulary, memory that is too small.
#include "kernels/sample/sample_row_fixture.hpp"
#include "support/catch.hpp"

#include <string>

namespace {

using namespace kvpage;
using kvpage_test::SampleRow;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string refusal(const SampleRow& row) {
  const Status status = validate(row.args());
  CHECK((row.sample().has_value() || row.sample().error().kind == SampleError::Kind::kBadArguments));
  CHECK(row.sample().has_value() == status.ok());
  return status.message();
}

}  // namespace

TEST_CASE("sample.validate.names_the_parameter", "[sample]") {
  const auto message = [](auto&& change) {
    SampleRow row{.logits = {1.0f, 2.0f}};
    change(row.params);
    return refusal(row).substr(0, 6);
  };
  CHECK(message([](SamplingParams&) {}) == "ok");
  for (const float bad : {-0.1f, 1.1f, kNan, kInf}) {
    CHECK(message([&](SamplingParams& p) { p.min_p = bad; }) == "min_p ");
    CHECK(message([&](SamplingParams& p) { p.top_p = bad; }) == "top_p ");
  }
  for (const float bad : {kNan, kInf, -kInf}) {
    CHECK(message([&](SamplingParams& p) { p.temperature = bad; }) == "temper");
    CHECK(message([&](SamplingParams& p) { p.presence_penalty = bad; }) == "presen");
    CHECK(message([&](SamplingParams& p) { p.frequency_penalty = bad; }) == "freque");
    CHECK(message([&](SamplingParams& p) { p.repetition_penalty = bad; }) == "repeti");
  }
  CHECK(message([](SamplingParams& p) { p.top_k = -3; }) == "top_k ");
}

TEST_CASE("sample.validate.ids_outside_the_vocabulary_are_refused", "[sample]") {
  for (const TokenId id : {2u, 3u, 191'222u, 0xFFFF'FFFFu}) {
    SampleRow row{.logits = {1.0f, 2.0f}, .params = {.repetition_penalty = 1.1f}};
    CHECK(refusal(row) == "ok");
    row.prompt_ids = {0, id};
    CHECK(refusal(row) != "ok");
    row.prompt_ids = {};
    row.output_ids = {id};
    CHECK(refusal(row) != "ok");
    row.output_ids = {};
    row.banned = {id};
    CHECK(refusal(row) != "ok");
    row.banned = {};
    row.bias = {{id, 1.0f}};
    CHECK(refusal(row) == "logit_bias holds an id outside the vocabulary");
    row.bias = {{1, 1.0f}};
    CHECK(refusal(row) == "ok");
  }
}

TEST_CASE("sample.validate.biases_and_penalties_that_overflow_are_an_error_of_the_row", "[sample]") {
  SampleRow row{.logits = {3e38f, 2.0f}};
  row.bias = {{0, kNan}};
  CHECK(row.sample().error().kind == SampleError::Kind::kBadArguments);
  row.bias = {{0, 1e9f}, {1, -100.0f}};
  CHECK(row.sample().value() == 0);
  row.bias = {{0, 3e38f}};
  CHECK(row.sample().error() == SampleError{SampleError::Kind::kBadLogit, 0});
  row = {.logits = {3.0f, kvpage_test::kNever}, .params = {.frequency_penalty = -3e38f}, .output_ids = {1, 1, 1}};
  CHECK(row.sample().value() == 0);  // a token that is ruled out stays so, without NaN
}

TEST_CASE("sample.validate.vocabulary_mask_and_scratch_sizes", "[sample]") {
  CHECK_FALSE(validate(SamplingParams{}, 0).ok());
  CHECK_FALSE(validate(SamplingParams{}, kMaxVocabSize + 1).ok());
  CHECK(validate(SamplingParams{}, kMaxVocabSize).ok());
  SampleRow row{.logits = std::vector<float>(65, 1.0f)};
  row.allowed = {~0u, ~0u};
  CHECK(refusal(row) == "the allowed mask is too short");
  row.allowed.push_back(1);
  CHECK(refusal(row) == "ok");
  auto scratch = kvpage_test::make_scratch(65);
  const auto bytes = std::as_writable_bytes(std::span(scratch));
  CHECK(sample_row(row.args(), bytes).has_value());
  CHECK(sample_row(row.args(), bytes.first(bytes.size() - 1)).error().kind == SampleError::Kind::kBadArguments);
  CHECK(sample_row(row.args(), bytes.subspan(4)).error().kind == SampleError::Kind::kBadArguments);
}
