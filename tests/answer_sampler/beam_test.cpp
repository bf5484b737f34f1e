// Beam search through the engine, against the naive one.
#include "answer_sampler/naive_beam.hpp"
#include "support/environment.hpp"
#include "tokenizer/toy_vocabulary.hpp"

#include <random>

using namespace kvpage_test;

namespace {

/// A beam over a table of logits.
struct BeamCase {
  GenerationRequest request{};
  std::int64_t vocab_size = 0;
  std::uint64_t table_seed = 0;
  std::uint32_t levels = 0;
  Ids end_tokens{};

  LogitsOf logits_of() const { return hashed_logits(table_seed, levels); }
  Ids stop_tokens() const {
    Ids all = request.ignore_eos ? Ids{} : end_tokens;
    all.insert(all.end(), request.stop_tokens.begin(), request.stop_tokens.end());
    return all;
  }
};

/// Stop strings of one and two tokens, each the byte of its number: often so many that most of what a row offers ends.
std::vector<std::string> random_stops(std::mt19937_64& random, std::int64_t vocab_size) {
  std::vector<std::string> stops(random() % static_cast<std::uint64_t>(vocab_size));
  for (std::string& stop : stops) {
    do stop += static_cast<char>(random() % static_cast<std::uint64_t>(vocab_size));
    while (stop.size() < 2 && random() % 4 == 0);
  }
  return stops;
}

/// Small vocabularies and beams wider than they are; ties; end tokens, or none; stop strings; penalties and biases.
BeamCase random_case(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  BeamCase c;
  c.vocab_size = 2 + static_cast<std::int64_t>(below(11));
  const auto any_id = [&] { return static_cast<TokenId>(below(static_cast<std::uint64_t>(c.vocab_size))); };
  c.table_seed = random();
  c.levels = below(3) == 0 ? 2 + static_cast<std::uint32_t>(below(3)) : 0;
  for (std::uint64_t i = below(3); i > 0; --i) c.end_tokens.push_back(any_id());
  std::sort(c.end_tokens.begin(), c.end_tokens.end());
  GenerationRequest& r = c.request;
  for (std::uint64_t i = 1 + below(6); i > 0; --i) r.prompt_ids.push_back(any_id());
  r.sampling.temperature = 0;
  r.beam_width = 1 + static_cast<std::int64_t>(below(7));
  r.n = 1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(r.beam_width)));
  r.max_tokens = 1 + static_cast<std::int64_t>(below(9));
  constexpr double kPenalties[] = {1, 1, 0, 0.6, 2, -1};
  r.length_penalty = kPenalties[below(6)];
  r.num_logprobs = below(2) == 0 ? 2 : -1;
  r.ignore_eos = below(6) == 0;
  if (below(4) == 0) r.stop_tokens = {any_id()};
  if (below(3) == 0) r.stop_strings = random_stops(random, c.vocab_size);
  // One token at least can always be drawn.
  const auto stops = c.stop_tokens();
  bool all_stop = true;
  for (TokenId id = 0; id < static_cast<TokenId>(c.vocab_size); ++id) all_stop &= std::find(stops.begin(), stops.end(), id) != stops.end();
  if (!all_stop && below(3) == 0) r.min_tokens = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(r.max_tokens) + 1));
  if (below(4) == 0) r.logit_bias = {{any_id(), 1.5f}, {any_id(), -1}};
  if (below(4) == 0) r.sampling.repetition_penalty = 1.3f;
  if (below(4) == 0) r.sampling.frequency_penalty = 0.5f;
  return c;
}

std::string described(const BeamCase& c) {
  return "table " + std::to_string(c.table_seed) + ", vocab " + std::to_string(c.vocab_size) + ", width " +
         std::to_string(c.request.beam_width) + ", max_tokens " + std::to_string(c.request.max_tokens) + ", levels " +
         std::to_string(c.levels);
}

void check_equal(const std::vector<Answer>& answers, const std::vector<NaiveHypothesis>& wanted, const GenerationRequest& request) {
  REQUIRE(answers.size() == wanted.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CHECK(answers[i].ids == wanted[i].ids);
    CHECK(answers[i].sum_logprob == Approx(wanted[i].raw).margin(1e-9));
    CHECK(answers[i].logprobs.size() == (request.num_logprobs >= 0 ? wanted[i].ids.size() : 0));
    CHECK(answers[i].finish == (wanted[i].ended ? FinishReason::kStop : FinishReason::kLength));
    CHECK(answers[i].num_drawn == wanted[i].length);
  }
}

/// Runs `count` cases; every second one is preempted on its way, and some of its steps are lost.
void compare_with_naive(std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  const kvpage::engine::Tokenizer tokenizer = ToyVocabulary::bpe().make();
  int ended = 0;
  int early = 0;
  int lost = 0;
  std::int64_t preemptions = 0;
  for (int i = 0; i < count; ++i) {
    const BeamCase c = random_case(random);
    INFO("seed " << seed << ", case " << i << ": " << described(c));
    const TableModelConfig model{.vocab_size = c.vocab_size, .num_blocks = 128, .logit_rows = 1 + i % 4, .num_threads = 1 + i % 2,
                                 .sees_history = i % 4 > 0};
    EngineFixture f(model, c.logits_of(), c.end_tokens, &tokenizer);
    const auto id = f.submit(c.request);
    std::int64_t steps = 0;
    while (f.num_requests() > 0) {
      f.model.failing_calls = i % 2 == 1 && random() % 4 == 0 ? 1 : 0;
      f.step();
      lost += f.last_status.ok() ? 0 : 1;
      if (i % 2 == 1 && random() % 3 == 0) f.preempt(id);
      ++steps;
    }
    f.step();
    check_equal(f.answers(id), NaiveBeam(c.request, model, c.logits_of(), c.stop_tokens()).best(), c.request);
    for (const Answer& answer : f.answers(id)) ended += answer.finish == FinishReason::kStop ? 1 : 0;
    early += i % 2 == 0 && steps < c.request.max_tokens ? 1 : 0;
    preemptions += f.num_preemptions();
  }
  CHECK(ended > count / 4);
  CHECK(early > count / 40);
  CHECK(preemptions > count / 4);
  CHECK(lost > count / 10);
}

}  // namespace

TEST_CASE("answer_sampler.beam.equals_the_naive_search", "[answer_sampler]") { compare_with_naive(1, 600); }

TEST_CASE("answer_sampler.beam.equals_the_naive_search_on_new_tables", "[answer_sampler][night]") {
  if (!kvpage_test::night_run()) kvpage_test::skip("long-running");
  compare_with_naive(std::random_device{}(), 20'000);
}

TEST_CASE("answer_sampler.beam.finds_what_greedy_misses", "[answer_sampler]") {
  // Behind 0 everything is even, behind 1 one token is sure: 1, 3 is likelier than anything that begins with the likelier 0.
  const LogitsOf table = [](TokenId token, std::int64_t position, std::span<float> row) {
    std::fill(row.begin(), row.end(), 0.0f);
    if (position == 0) row[0] = 9.0f, row[1] = 8.9f;
    if (position == 1 && token == 1) row[3] = 20.0f;
  };
  EngineFixture f({.vocab_size = 8}, table);
  const GenerationRequest greedy{.prompt_ids = {7}, .max_tokens = 2, .sampling = {.temperature = 0}};
  CHECK(f.generate(greedy).at(0).ids == Ids{0, 0});
  GenerationRequest beam = greedy;
  beam.beam_width = 2;
  beam.num_logprobs = 3;
  const Answer best = f.generate(beam).at(0);
  CHECK(best.ids == Ids{1, 3});
  REQUIRE(best.logprobs.size() == 2);
  CHECK(best.logprobs[0].chosen.id == 1);
  CHECK(best.logprobs[0].top.at(0).id == 0);  // by the row that it was chosen from
  CHECK(best.logprobs[1].top.at(0).id == 3);
  beam.beam_width = 1;
  CHECK(f.generate(beam).at(0).ids == Ids{0, 0});
}

TEST_CASE("answer_sampler.beam.goes_on_below_any_number_of_continuations_that_stop", "[answer_sampler]") {
  // 200 tokens complete the stop string and are likelier than all others: the search still finds the two that go on.
  const kvpage::engine::Tokenizer tokenizer = ToyVocabulary::bpe().make();
  std::vector<float> logits(256, 5.0f);
  std::fill(logits.begin(), logits.begin() + 56, 0.0f);
  logits[7] = 2.0f;
  EngineFixture f({.vocab_size = 256}, constant_logits(logits), {}, &tokenizer);
  GenerationRequest request{.prompt_ids = {1}, .max_tokens = 3, .sampling = {.temperature = 0}, .beam_width = 1, .length_penalty = 16};
  for (int byte = 56; byte < 120; ++byte) request.stop_strings.push_back(std::string(1, static_cast<char>(byte)));
  for (TokenId id = 120; id < 256; ++id) request.stop_tokens.push_back(id);
  const Answer answer = f.generate(request).at(0);
  CHECK(answer.ids == Ids{7, 7, 56});  // a long one that ends scores more than a short one
  CHECK(answer.finish == FinishReason::kStop);
}

TEST_CASE("answer_sampler.beam.streams_nothing_and_gives_what_it_had_when_cancelled", "[answer_sampler]") {
  EngineFixture f({.vocab_size = 12}, hashed_logits(5));
  GenerationRequest request{.prompt_ids = {1, 2, 3}, .max_tokens = 30, .sampling = {.temperature = 0}, .n = 2, .beam_width = 3};
  const auto id = f.submit(request);
  for (int i = 0; i < 7; ++i) f.step();
  REQUIRE(f.cancel(id));
  f.run();
  CHECK(f.streams.empty());
  REQUIRE(f.answers(id).size() == 2);
  request.max_tokens = 7;
  const std::vector<NaiveHypothesis> wanted = NaiveBeam(request, {.vocab_size = 12}, hashed_logits(5), {}).best();
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(f.answer(id, i).ids == wanted[i].ids);
    CHECK(f.answer(id, i).finish == FinishReason::kCancelled);
  }
  const auto early = f.submit(request);
  REQUIRE(f.cancel(early));
  f.run();
  REQUIRE(f.answers(early).size() == 2);
  CHECK(f.answer(early).ids.empty());
}

TEST_CASE("answer_sampler.beam.one_bad_row_ends_the_beam_and_nothing_else", "[answer_sampler]") {
  const auto table = [](TokenId token, std::int64_t position, std::span<float> row) {
    hashed_logits(8)(token, position, row);
    if (position == 5 && token % 2 == 0) row[3] = std::numeric_limits<float>::quiet_NaN();
  };
  EngineFixture f({.vocab_size = 12}, table);
  const GenerationRequest plain{.prompt_ids = {1}, .max_tokens = 5, .sampling = {.temperature = 0}, .beam_width = 4};
  GenerationRequest longer = plain;
  longer.max_tokens = 30;
  const auto good = f.submit(plain);
  const auto bad = f.submit(longer);
  f.run();
  CHECK(f.answer(good).finish == FinishReason::kLength);
  CHECK(f.answer(bad).finish == FinishReason::kError);
  CHECK(f.answer(bad).ids == f.answer(good).ids);  // what it had
}
