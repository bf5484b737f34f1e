// Texts, stop strings and streams.
#include "answer_sampler/engine_fixture.hpp"
#include "tokenizer/toy_vocabulary.hpp"

using namespace kvpage_test;

namespace {

/// The token with which `script` goes on behind a prompt of one token; its last byte for ever.
LogitsOf scripted(std::string script) {
  return [script](TokenId, std::int64_t position, std::span<float> row) {
    const auto at = std::min(static_cast<std::size_t>(position), script.size() - 1);
    row[static_cast<unsigned char>(script[at])] = 20.0f;
  };
}

GenerationRequest greedy_request(std::int64_t max_tokens, std::vector<std::string> stops = {}) {
  return {.prompt_ids = {'>'}, .max_tokens = max_tokens, .sampling = {.temperature = 0}, .stop_strings = std::move(stops)};
}

/// An engine that says `script`, byte by byte. Byte 0 is its end token.
struct ScriptFixture {
  explicit ScriptFixture(const std::string& script)
      : tokenizer(ToyVocabulary::bpe().make()), engine({.vocab_size = 256}, scripted(script), {0}, &tokenizer) {}
  kvpage::engine::Tokenizer tokenizer;
  EngineFixture engine;

  /// Runs the request and checks that stream and answer agree.
  Answer generate(const GenerationRequest& request) {
    const auto id = engine.submit(request);
    engine.run();
    const Answer answer = engine.answer(id);
    CHECK(engine.stream(id).ids == answer.ids);
    CHECK(engine.stream(id).text + answer.tail_text == answer.text);
    return answer;
  }
};

Ids ids_of(const std::string& text) {
  Ids ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

}  // namespace

TEST_CASE("answer_sampler.text.ends_before_the_first_stop_string", "[answer_sampler]") {
  ScriptFixture f("one two three four");
  const Answer answer = f.generate(greedy_request(18, {"four", "thr", "zzz"}));
  CHECK(answer.text == "one two ");
  CHECK(answer.ids == ids_of("one two thr"));
  CHECK(answer.finish == FinishReason::kStop);
  const Answer whole = f.generate(greedy_request(18, {"fourth"}));
  CHECK(whole.text == "one two three four");
  CHECK(whole.tail_text == "four");  // it could have become a stop string
  CHECK(whole.finish == FinishReason::kLength);
}

TEST_CASE("answer_sampler.text.nothing_is_shown_that_may_become_a_stop_string", "[answer_sampler]") {
  ScriptFixture f("ababac");
  const auto id = f.engine.submit(greedy_request(6, {"abac"}));
  std::vector<std::string> shown;
  while (f.engine.num_requests() > 0) {
    f.engine.step();
    shown.push_back(f.engine.stream(id).text);
  }
  CHECK(shown == std::vector<std::string>{"", "", "", "ab", "ab", "ab"});
  CHECK(f.engine.answer(id).text == "ab");
  CHECK(f.engine.answer(id).finish == FinishReason::kStop);
}

TEST_CASE("answer_sampler.text.a_stop_string_at_the_last_token_is_a_stop", "[answer_sampler]") {
  ScriptFixture f("xyz");
  CHECK(f.generate(greedy_request(3, {"yz"})).finish == FinishReason::kStop);
  CHECK(f.generate(greedy_request(2, {"yz"})).finish == FinishReason::kLength);
}

TEST_CASE("answer_sampler.text.end_and_stop_tokens_are_not_in_the_answer", "[answer_sampler]") {
  ScriptFixture f(std::string("hey\0you", 7));
  const Answer answer = f.generate(greedy_request(20));
  CHECK(answer.text == "hey");
  CHECK(answer.ids == ids_of("hey"));
  CHECK(answer.finish == FinishReason::kStop);
  GenerationRequest request = greedy_request(20);
  request.ignore_eos = true;
  request.stop_tokens = {'u'};
  CHECK(f.generate(request).ids == ids_of(std::string("hey\0yo", 6)));
  request.stop_tokens = {'h'};
  const Answer none = f.generate(request);
  CHECK(none.ids.empty());
  CHECK(none.text.empty());
  CHECK(none.finish == FinishReason::kStop);
}

TEST_CASE("answer_sampler.text.nothing_ends_an_answer_before_min_tokens", "[answer_sampler]") {
  ScriptFixture f(std::string("ab\0ab\n\nab\n\n", 11));
  GenerationRequest request = greedy_request(11, {"\n\n"});
  for (const auto& [min_tokens, text] : std::vector<std::pair<std::int64_t, std::string>>{{0, "ab"}, {2, "ab"}}) {
    request.min_tokens = min_tokens;
    CHECK(f.generate(request).text == text);
  }
  request.ignore_eos = true;
  for (const auto& [min_tokens, length] : std::vector<std::pair<std::int64_t, std::size_t>>{{7, 5}, {8, 9}, {11, 9}}) {
    request.min_tokens = min_tokens;
    const Answer answer = f.generate(request);
    CHECK(answer.text == std::string("ab\0ab\n\nab\n\n", 11).substr(0, length));
    CHECK(answer.finish == FinishReason::kStop);
    CHECK(answer.ids.size() == length + 2);
  }
  request.ignore_eos = false;
  request.stop_strings.clear();
  request.min_tokens = 3;  // the end token is masked: another one takes its place
  const Answer longer = f.generate(request);
  CHECK(longer.ids.size() == 11);
  CHECK(longer.ids[2] != 0);
}

TEST_CASE("answer_sampler.text.characters_come_whole", "[answer_sampler]") {
  ScriptFixture f("a\xE2\x82\xAC\xF0\x9F\x98\x80z");
  const auto id = f.engine.submit(greedy_request(9, {"zz"}));
  std::vector<std::size_t> bytes;
  while (f.engine.num_requests() > 0) {
    f.engine.step();
    bytes.push_back(f.engine.stream(id).text.size());
  }
  CHECK(bytes == std::vector<std::size_t>{1, 1, 1, 4, 4, 4, 4, 8, 8});
  CHECK(f.engine.answer(id).text == "a\xE2\x82\xAC\xF0\x9F\x98\x80z");
  CHECK(f.generate(greedy_request(3)).text == "a\xEF\xBF\xBD");  // an answer that ends inside a character
}

TEST_CASE("answer_sampler.text.a_cancelled_answer_keeps_what_was_accepted", "[answer_sampler]") {
  for (const bool in_flight : {false, true}) {
    ScriptFixture f("one two three");
    const auto id = f.engine.submit(greedy_request(13, {"two t", "zzz"}));
    for (int i = 0; i < 6; ++i) f.engine.step();
    if (in_flight) {
      f.engine.on_plan([&](const kvpage::BatchPlan&) { f.engine.cancel(id); });  // its token is drawn and then dropped
    } else {
      f.engine.cancel(id);
    }
    f.engine.run();
    CHECK(f.engine.answer(id).finish == FinishReason::kCancelled);
    CHECK(f.engine.answer(id).text == "one tw");
    CHECK(f.engine.answer(id).ids == ids_of("one tw"));
    CHECK(f.engine.stream(id).text + f.engine.answer(id).tail_text == "one tw");
  }
}

TEST_CASE("answer_sampler.text.a_step_whose_logits_fail_leaves_no_trace", "[answer_sampler]") {
  ScriptFixture calm("one two three");
  const Answer wanted = calm.generate(greedy_request(13, {"three"}));
  ScriptFixture f("one two three");
  std::vector<RequestId> ids;
  for (int i = 0; i < 12; ++i) ids.push_back(f.engine.submit(greedy_request(13, {"three"})));
  int failed = 0;
  for (int step = 0; f.engine.num_requests() > 0; ++step) {
    f.engine.model.failing_calls = step % 3 == 1 ? 1 : 0;
    f.engine.step();
    failed += f.engine.last_status.ok() ? 0 : 1;
  }
  CHECK(failed >= 5);
  for (const auto id : ids) {
    CHECK(f.engine.answer(id).ids == wanted.ids);
    CHECK(f.engine.answer(id).text == "one two ");
    CHECK(f.engine.stream(id).ids == wanted.ids);
  }
}

TEST_CASE("answer_sampler.text.beams_have_texts_and_stop_strings", "[answer_sampler]") {
  const LogitsOf table = [](TokenId token, std::int64_t position, std::span<float> row) {
    for (std::size_t id = 0; id < row.size(); ++id) row[id] = -30.0f;  // a, b, c, d alone are likely
    for (TokenId id = 'a'; id <= 'd'; ++id) {
      row[id] = static_cast<float>((token * 7 + id * 5 + static_cast<TokenId>(position) * 3) % 11) * 0.3f;
    }
  };
  const auto tokenizer = ToyVocabulary::bpe().make();
  EngineFixture f({.vocab_size = 256}, table, {0}, &tokenizer);
  GenerationRequest request{.prompt_ids = {'>'}, .max_tokens = 12, .sampling = {.temperature = 0}, .n = 4, .beam_width = 4};
  for (const Answer& answer : f.generate(request)) CHECK(answer.ids == ids_of(answer.text));
  request.stop_tokens = {'d'};
  std::size_t ended = 0;
  for (const Answer& answer : f.generate(request)) {
    CHECK(answer.ids == ids_of(answer.text));  // without the stop token
    ended += answer.finish == FinishReason::kStop ? 1 : 0;
  }
  CHECK(ended > 0);
  request.stop_tokens.clear();
  request.stop_strings = {"ca", "bd"};
  std::size_t stopped = 0;
  for (const Answer& answer : f.generate(request)) {
    const std::string all = tokenizer.decode(answer.ids);
    CHECK(all.substr(0, answer.text.size()) == answer.text);
    if (answer.finish == FinishReason::kStop) {
      ++stopped;
      CHECK(all.size() == answer.text.size() + 2);
      CHECK((all.ends_with("ca") || all.ends_with("bd")));
    }
    CHECK(answer.text.find("ca") == std::string::npos);
    CHECK(answer.text.find("bd") == std::string::npos);
  }
  CHECK(stopped > 0);
}
