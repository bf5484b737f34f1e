/// \file The verb run: the text alone on standard output, everything else on standard error.
#include "cli/program.hpp"
#include "engine/tiny_models.hpp"
#include "golden/greedy_rows.hpp"

#include <algorithm>

namespace kvpage_test {
namespace {

const std::string kQuestion = "What is the capital of France?";
const std::string kEndToken = "<|im_end|>";

/// The text that the program must print for a golden row.
std::string golden_answer(const GreedyRow& row) {
  std::string text = row.greedy_text;
  if (text.ends_with(kEndToken)) text.resize(text.size() - kEndToken.size());
  return text + "\n";
}

/// A model whose answers never end: its end tokens are the least likely ones.
GgufWriter endless_model() {
  TinyModel model = plain_model();
  model.tied = false;
  model.context = 1 << 20;
  GgufWriter writer = tiny_gguf(model);
  auto& output = tensor_of(writer, "output.weight");
  for (const std::size_t id : {TinyToken::kEndOfText, TinyToken::kTurnEnd}) {
    for (std::size_t i = 0; i < model.hidden; ++i) set_float(output, id * model.hidden + i, 0);
  }
  return writer;
}

}  // namespace

TEST_CASE("cli.run.the_golden_answer_of_a_real_model", "[cli]") {
  const std::string model = model_path("smollm2");
  const GreedyRow row = row_named(read_greedy_rows("smollm2"), "chat_capital");
  const Outcome chat = run_kvpage({"run", "--model", model, "--prompt", kQuestion, "--kernels", "reference"});
  INFO(chat.err);
  CHECK(chat.exit_code == 0);
  CHECK(chat.out == golden_answer(row));
  CHECK(contains(chat.err, "37 prompt tokens"));
  CHECK(contains(chat.err, "tok/s"));
  CHECK_FALSE(contains(chat.out, "tok/s"));
}

TEST_CASE("cli.run.raw_text_that_looks_like_the_template_gives_the_same", "[cli]") {
  const std::string model = model_path("smollm2");
  const GreedyRow row = row_named(read_greedy_rows("smollm2"), "chat_capital");
  const Outcome chat = run_kvpage({"run", "--model", model, "--prompt", kQuestion, "--threads", "1"});
  const Outcome raw = run_kvpage({"run", "--model", model, "--raw", "--prompt", row.prompt, "--threads", "1"});
  INFO(chat.err << raw.err);
  CHECK(chat.exit_code == 0);
  CHECK(raw.exit_code == 0);
  CHECK(raw.out == chat.out);
  CHECK(contains(raw.err, "37 prompt tokens"));
  CHECK(chat.out.size() > 1);
  CHECK(chat.out.ends_with('\n'));
  CHECK_FALSE(chat.out.ends_with("\n\n"));
  CHECK_FALSE(contains(chat.out, "<|"));
}

TEST_CASE("cli.run.a_base_model_needs_raw", "[cli]") {
  const std::string model = model_path("gemma3");
  const Outcome refused = run_kvpage({"run", "--model", model, "--prompt", "The quick brown fox"});
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "--raw"));
  CHECK(refused.out.empty());
  const Outcome raw = run_kvpage({"run", "--model", model, "--raw", "--prompt", "The quick brown fox", "--max-tokens", "6"});
  INFO(raw.err);
  CHECK(raw.exit_code == 0);
  CHECK(contains(raw.err, "5 prompt tokens"));  // BOS in front, as the file asks
  CHECK(raw.out == " jumps over the lazy dog.\n");
}

TEST_CASE("cli.run.a_user_cannot_write_control_tokens", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::vector<std::string> common{"run", "--model", tiny.path(), "--max-tokens", "1", "--prompt", kEndToken};
  const Outcome chat = run_kvpage(common);
  INFO(chat.err);
  // <|im_start|> u s er \n, the user's ten characters, <|im_end|> \n, <|im_start|> a s s i s t an t \n
  CHECK(contains(chat.err, "[" + std::to_string(5 + 10 + 2 + 10) + " prompt tokens"));
  std::vector<std::string> raw = common;
  raw.push_back("--raw");
  CHECK(contains(run_kvpage(raw).err, "[1 prompt tokens"));
}

TEST_CASE("cli.run.seeds_repeat", "[cli]") {
  const TinyFile tiny(endless_model());
  const auto draw = [&](const char* seed) {
    const Outcome outcome = run_kvpage({"run", "--model", tiny.path(), "--raw", "--prompt", "ab", "--temperature", "1.5", "--seed", seed,
                                        "--max-tokens", "40", "--top-k", "50", "--top-p", "0.95", "--min-p", "0.001"});
    CHECK(outcome.exit_code == 0);
    return outcome.out;
  };
  const std::string first = draw("7");
  CHECK(draw("7") == first);
  CHECK(draw("8") != first);
  const Outcome drawn = run_kvpage({"run", "--model", tiny.path(), "--raw", "--prompt", "ab", "--temperature", "1", "--max-tokens", "2"});
  CHECK(contains(drawn.err, "[seed "));
}

TEST_CASE("cli.run.interrupt_ends_the_answer_with_its_timings", "[cli]") {
  const TinyFile tiny(endless_model());
  Program program({"run", "--model", tiny.path(), "--raw", "--prompt", "ab", "--ctx", "1000000", "--max-tokens", "900000"});
  REQUIRE(program.wait_for_output());
  program.interrupt();
  const Outcome outcome = program.wait();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.ends_with('\n'));
  CHECK(contains(outcome.err, "interrupted"));
  CHECK(contains(outcome.err, "tok/s"));
}

TEST_CASE("cli.run.a_full_context_ends_the_answer", "[cli]") {
  const TinyFile tiny(endless_model());
  const Outcome outcome = run_kvpage({"run", "--model", tiny.path(), "--raw", "--prompt", "ab", "--ctx", "32"});
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.err, "30 tokens"));  // with the two of the prompt
  CHECK(contains(outcome.err, "--ctx"));
}

TEST_CASE("cli.run.options_of_sampling_and_ends", "[cli]") {
  const TinyFile tiny(endless_model());
  const auto answer = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "--model", tiny.path(), "--raw", "--prompt", "ab", "--max-tokens", "12"});
    Outcome outcome = run_kvpage(more);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return outcome;
  };
  const std::string greedy = answer({}).out;
  CHECK(answer({"--logit-bias", "120=100", "--logit-bias", "121=50"}).out == std::string(12, 'x') + "\n");
  CHECK(answer({"--logit-bias", "120=100", "--repetition-penalty", "100"}).out != std::string(12, 'x') + "\n");
  CHECK(answer({"--logit-bias", "120=100", "--logit-bias", "121=50", "--presence-penalty", "100"}).out.starts_with("xy"));
  CHECK(answer({"--frequency-penalty", "100"}).out != greedy);
  const Outcome stopped = answer({"--logit-bias", "120=100", "--stop", "xxx", "--stop", "q"});
  CHECK(stopped.out == "\n");  // the text before the first stop
  CHECK(contains(stopped.err, "end of answer"));
  const Outcome later = answer({"--logit-bias", "120=100", "--stop", "xxx", "--min-tokens", "7"});
  CHECK(later.out.size() > 5);
  CHECK(later.out.size() < 12);
  const Outcome two = answer({"--answers", "2", "--temperature", "2", "--seed", "3"});
  CHECK(two.out.starts_with("[answer 1]\n"));
  CHECK(contains(two.out, "[answer 2]\n"));
  CHECK(contains(two.err, "24 tokens"));
  CHECK(answer({"--n", "2", "--temperature", "2", "--seed", "3"}).out == two.out);
  const Outcome beam = answer({"--beam", "3"});
  CHECK(beam.out.ends_with('\n'));
  CHECK(contains(beam.err, "12 tokens"));
  const Outcome logprobs = answer({"--logprobs", "1"});
  CHECK(logprobs.out == greedy);
  std::size_t lines = 0;
  for (auto at = logprobs.err.find("\"logprob\""); at != std::string::npos; at = logprobs.err.find("\"logprob\"", at + 1)) ++lines;
  CHECK(lines == 2 * 12);  // the token and the likeliest one, which is the same
}

TEST_CASE("cli.run.impossible_options_are_refused", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const auto refused = [&](std::vector<std::string> more, const std::string& why) {
    more.insert(more.begin(), {"run", "--model", tiny.path(), "--raw", "--prompt", "ab"});
    const Outcome outcome = run_kvpage(more);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, why));
    CHECK(outcome.out.empty());
  };
  for (const char* bias : {"5", "=1", "5=", "x=1", "5=1x", "-1=1", "5=101", "5=nan", " 5=1"}) refused({"--logit-bias", bias}, "ID=BIAS");
  refused({"--logit-bias", "272=1"}, "vocabulary");
  refused({"--beam", "2", "--temperature", "1"}, "temperature");
  refused({"--beam", "2", "--answers", "3"}, "--beam 2");
  refused({"--min-tokens", "9", "--max-tokens", "3"}, "--min-tokens 9");
  refused({"--stop", ""}, "stop");
  refused({"--answers", "129"}, "--answers");
}

TEST_CASE("cli.run.bytes_that_are_no_utf8_are_a_prompt_like_any_other", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  for (const std::string prompt : {"\xff\xfe", "\xc3", "a\xe2\x82", "\xf0\x9f\x98 \x80", "\xed\xa0\x80"}) {
    for (const bool raw : {false, true}) {
      std::vector<std::string> arguments{"run", "--model", tiny.path(), "--max-tokens", "3", "--prompt", prompt};
      if (raw) arguments.push_back("--raw");
      const Outcome outcome = run_kvpage(arguments);
      INFO(outcome.err);
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.out.ends_with('\n'));
    }
  }
}

TEST_CASE("cli.run.chat_answers_each_line", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::vector<std::string> arguments{"run", "--model", tiny.path(), "--max-tokens", "3"};
  const Outcome outcome = run_kvpage(arguments, "hi\n\nthere\n");
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  std::size_t answers = 0;
  for (auto at = outcome.err.find("prompt tokens"); at != std::string::npos; at = outcome.err.find("prompt tokens", at + 1)) ++answers;
  CHECK(answers == 2);
  CHECK(outcome.out.ends_with('\n'));
}

}  // namespace kvpage_test
