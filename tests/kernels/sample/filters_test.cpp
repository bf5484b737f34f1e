/// \file What each step of the sampler keeps, one by one.
#include "kernels/sample/sample_row_fixture.hpp"
#include "support/catch.hpp"

#include <cmath>

namespace {

using namespace kvpage;
using kvpage_test::ids_between;
using kvpage_test::kNever;
using kvpage_test::SampleRow;
using Ids = std::vector<TokenId>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SampleRow row_of_probabilities(std::initializer_list<double> probabilities) {
  SampleRow row;
  for (const double p : probabilities) row.logits.push_back(static_cast<float>(std::log(p)));
  return row;
}

SampleError error_of(const SampleRow& row) { return row.sample().error(); }

}  // namespace

TEST_CASE("bug.B33.nan_and_infinite_logits_end_the_row_with_an_error", "[sample][bug]") {
  for (const float bad : {kNan, kInf, -kNan}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1'023}, std::size_t{1'024}, std::size_t{2'999}}) {
      for (const float temperature : {0.0f, 1.0f}) {
        SampleRow row{.logits = std::vector<float>(3'000, 1.0f)};
        row.params.temperature = temperature;
        row.logits[at] = bad;
        row.banned = {static_cast<TokenId>(at)};  // a mask does not hide a broken model
        CHECK(error_of(row) == SampleError{SampleError::Kind::kBadLogit, static_cast<TokenId>(at)});
        CHECK(reference::sample_row(row.args()).error() == error_of(row));
      }
    }
  }
}

TEST_CASE("bug.B33.a_bias_or_penalty_that_makes_a_logit_infinite_ends_the_row", "[sample][bug]") {
  for (const float temperature : {0.0f, 1.0f}) {
    SampleRow biased{.logits = {1.0f, 3e38f, 0.0f}, .params = {.temperature = temperature}, .bias = {{1, 3e38f}}};
    CHECK(error_of(biased) == SampleError{SampleError::Kind::kBadLogit, 1});
    SampleRow penalized{.logits = {1.0f, 0.0f, 3e38f}, .params = {.temperature = temperature}, .prompt_ids = {2}};
    penalized.params.repetition_penalty = 1e-3f;
    CHECK(error_of(penalized) == SampleError{SampleError::Kind::kBadLogit, 2});
    CHECK(reference::sample_row(penalized.args()).error() == error_of(penalized));
  }
}

TEST_CASE("bug.B50.tiny_temperatures_take_the_maximum", "[sample][bug]") {
  SampleRow row{.logits = {2.875f, 2.955f, 11.0625f, -2.447f}};
  for (const float temperature : {1e-4f, 1e-5f, 1e-12f, 1e-45f, 0.0f}) {
    row.params.temperature = temperature;
    for (row.position = 0; row.position < 200; ++row.position) CHECK(row.sample().value() == 2);
  }
  row.params.temperature = 2.0f;
  CHECK(row.support() == ids_between(0, 3));
  for (const float temperature : {kNan, kInf, -kInf, -1.0f}) {
    row.params.temperature = temperature;
    CHECK_FALSE(validate(row.params, 4).ok());
    CHECK(error_of(row).kind == SampleError::Kind::kBadArguments);
  }
  SampleRow tied{.logits = {1.0f, 7.0f, 7.0f, 7.0f}, .params = {.temperature = 0.0f}};
  CHECK(tied.sample().value() == 1);
}

TEST_CASE("bug.B52.top_k_off_too_large_and_at_the_edges", "[sample][bug]") {
  SampleRow row;
  for (int i = 0; i < 128; ++i) row.logits.push_back(static_cast<float>(i % 64) * 0.05f);  // every value twice
  for (const float top_p : {1.0f, 0.95f}) {
    row.params.top_p = top_p;
    row.params.top_k = 0;
    const Ids all = row.support();
    CHECK((top_p < 1.0f || all.size() == 128));
    for (const std::int64_t k : {-1ll, 128ll, 129ll, 9'999'999ll, 1ll << 40}) {
      row.params.top_k = k;
      CHECK(row.support() == all);
    }
    row.params.top_k = 1;
    CHECK(row.support() == Ids{63});
    row.params.top_k = 2;
    CHECK(row.support() == Ids{63, 127});
  }
  row.params = {.top_k = 3};
  CHECK(row.support() == Ids{62, 63, 127});  // 62 and 126 tie for the third place
  row.params.top_k = 127;
  CHECK(row.support().size() == 127);
  CHECK(row.support().back() == 127);
  CHECK(row.support()[64] == 65);  // of the two smallest, 0 and 64, the higher id went
  row.params.top_k = -2;
  CHECK(error_of(row).kind == SampleError::Kind::kBadArguments);
}

TEST_CASE("bug.B54.repetition_counts_prompt_and_output_once", "[sample][bug]") {
  SampleRow row{.logits = {2.0f, -2.0f, 1.0f}, .params = {.repetition_penalty = 1.2f}, .prompt_ids = {0, 1, 0}};
  const auto adjusted = [&] {
    auto memory = kvpage_test::make_scratch(3);
    const detail::SampleScratch scratch(reinterpret_cast<std::byte*>(memory.data()), 3);
    REQUIRE(detail::adjust_logits(row.args(), scratch));
    return std::vector<float>(scratch.logits, scratch.logits + 3);
  };
  CHECK(adjusted()[0] == Approx(1.6667).epsilon(1e-4));
  CHECK(adjusted()[1] == Approx(-2.4));
  CHECK(adjusted()[2] == 1.0f);
  row.output_ids = {0, 2, 2};
  row.params.presence_penalty = 0.5f;
  row.params.frequency_penalty = 0.25f;
  CHECK(adjusted()[0] == Approx(2.0 / 1.2 - 0.75));
  CHECK(adjusted()[1] == Approx(-2.4));  // in the prompt only: neither presence nor frequency
  CHECK(adjusted()[2] == Approx(1.0 / 1.2 - 1.0));
  CHECK(adjusted() == reference::adjusted_logits(row.args()));
  for (const float penalty : {0.0f, -1.0f, kNan, kInf}) {
    row.params.repetition_penalty = penalty;
    CHECK(error_of(row).kind == SampleError::Kind::kBadArguments);
  }
}

TEST_CASE("bug.B59.min_p_sees_probabilities_and_the_order_is_stated", "[sample][bug]") {
  SampleRow row = row_of_probabilities({0.5, 0.3, 0.15, 0.05});
  CHECK(row.support() == ids_between(0, 3));
  row.params.min_p = 0.4f;
  CHECK(row.support() == ids_between(0, 1));
  row.params.min_p = 1.0f;
  CHECK(row.support() == ids_between(0, 0));
  row.params = {.temperature = 2.0f, .min_p = 0.4f};
  CHECK(row.support() == ids_between(0, 2));
  CHECK(row.support<TemperatureLast>() == ids_between(0, 1));
  row.params.top_p = 0.7f;  // of what min-p left: (.430, .333, .236) at temperature 2
  CHECK(row.support() == ids_between(0, 1));
  row.params = {.min_p = 0.2f, .top_k = 2, .top_p = 0.6f};  // .3 of .8 is needed behind .5 of .8 = .625
  CHECK(row.support() == ids_between(0, 0));
  row.allowed = {0};
  CHECK(error_of(row).kind == SampleError::Kind::kNothingAllowed);
  CHECK(row.sample<TemperatureLast>().error().kind == SampleError::Kind::kNothingAllowed);
}

TEST_CASE("sample.filters.top_p_keeps_the_smallest_sufficient_set", "[sample]") {
  SampleRow row{.logits = {0.0f, 0.0f, 0.0f, 0.0f}};
  const auto kept = [&](float top_p) {
    row.params.top_p = top_p;
    return row.support();
  };
  CHECK(kept(0.0f) == ids_between(0, 0));
  CHECK(kept(0.25f) == ids_between(0, 0));  // exactly a quarter is enough
  CHECK(kept(0.2501f) == ids_between(0, 1));
  CHECK(kept(0.75f) == ids_between(0, 2));
  CHECK(kept(0.9999f) == ids_between(0, 3));
  CHECK(kept(1.0f) == ids_between(0, 3));
}

TEST_CASE("sample.filters.a_huge_temperature_does_not_forget_the_order_of_logits", "[sample]") {
  SampleRow row{.logits = {1.0f, 1.5f, 3.0f, 2.0f}, .params = {.temperature = 1e30f, .top_k = 1}};
  CHECK(row.support() == Ids{2});  // all weights are equal by now
  row.params = {.temperature = 1e30f, .top_p = 0.5f};
  CHECK(row.support() == Ids{2, 3});
}

TEST_CASE("sample.filters.temperature_last_keeps_unlikely_tokens_of_the_top_k_in_order", "[sample]") {
  SampleRow row{.logits = {0.0f, 100.0f, 1.0f, 2.0f}, .params = {.temperature = 50.0f, .top_k = 3}};
  CHECK(row.support<TemperatureLast>() == Ids{1, 2, 3});  // 2 and 3 have weight 0 when the filter looks
}

TEST_CASE("sample.mask.only_allowed_tokens_are_drawn", "[sample]") {
  SampleRow row{.logits = std::vector<float>(70, 1.0f)};
  row.allowed = {1u << 31 | 1u, 1u << 2, 1u << 5 | 1u << 31};  // the last bit is behind the vocabulary
  CHECK(row.support() == Ids{0, 31, 34, 69});
  row.banned = {31, 0};
  CHECK(row.support() == Ids{34, 69});
  row.params.temperature = 0.0f;
  CHECK(row.sample().value() == 34);
  row.bias = {{0, 1000.0f}, {69, 1.0f}};  // a bias does not bring a banned token back
  CHECK(row.sample().value() == 69);
  row.banned = {0, 31, 34, 69};
  CHECK(error_of(row).kind == SampleError::Kind::kNothingAllowed);
  SampleRow ruled_out{.logits = {kNever, kNever}};
  CHECK(error_of(ruled_out).kind == SampleError::Kind::kNothingAllowed);
}
