/// \file The verbs score, perplexity, bench and inspect: every number that they print.
#include "cli/request_runs.hpp"
#include "engine/scoring.hpp"
#include "engine/tiny_models.hpp"
#include "support/environment.hpp"

#include <cmath>
#include <sstream>

namespace kvpage_test {
namespace {

std::string text_of_words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i % 3 == 0 ? "the " : i % 3 == 1 ? "inner one, " : "27 ants\n");
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("cli.score.prints_the_engines_numbers_bit_for_bit", "[cli]") {
  const TinyFile tiny(every_switch());
  const TempDir dir;
  write_text(dir / "in.jsonl", "{\"prompt_ids\": [5, 6, 7, 8], \"continuation_ids\": [9, 10]}\n\n"
                               "{\"prompt_ids\": [5], \"continuation_ids\": []}\n");
  const auto model = tiny.load(tiny_config("cpu", "f16"));
  const auto want = kvpage::engine::score(*model, std::vector<TokenId>{5, 6, 7, 8}, std::vector<TokenId>{9, 10}, 512);
  REQUIRE(want);
  std::string first;
  for (const char* chunk : {"512", "3", "1"}) {
    const Outcome outcome = run_kvpage({"score", "--model", tiny.path(), "--input", dir / "in.jsonl", "--chunk", chunk});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    if (first.empty()) first = outcome.out;
    CHECK(outcome.out == first);
  }
  const auto lines = lines_of(first);
  REQUIRE(lines.size() == 2);
  const Json score = Json::parse(lines[0]);
  CHECK(score["prompt_nll"].get<double>() == want->prompt_nll);
  REQUIRE(score["continuation"].size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(score["continuation"][i]["id"] == want->continuation[i].id);
    CHECK(score["continuation"][i]["argmax"] == want->continuation[i].argmax);
    CHECK(score["continuation"][i]["logprob"].get<double>() == want->continuation[i].logprob);
    CHECK(score["continuation"][i]["argmax_logprob"].get<double>() == want->continuation[i].argmax_logprob);
  }
  REQUIRE(score["first_top10"].size() == 10);
  CHECK(score["first_top10"][9][0] == want->first_top10[9].first);
  CHECK(score["first_top10"][9][1].get<double>() == want->first_top10[9].second);
  CHECK(Json::parse(lines[1])["prompt_nll"].get<double>() == 0);
  CHECK(Json::parse(lines[1])["continuation"].empty());
  const Outcome piped = run_kvpage({"score", "--model", tiny.path(), "--input", "-"}, read_text(dir / "in.jsonl"));
  CHECK(piped.out == first);
}

TEST_CASE("cli.perplexity.is_the_mean_of_scores_numbers", "[cli]") {
  constexpr std::size_t kWindow = 16;
  const TinyFile tiny(plain_model());
  const TempDir dir;
  write_text(dir / "text", text_of_words(30));
  const std::string model = tiny.path();
  const auto ids = Json::parse(run_kvpage({"tokenize", "--model", model, "--file", dir / "text"}).out).get<std::vector<TokenId>>();
  const std::size_t windows = ids.size() / kWindow;
  REQUIRE(windows >= 3);
  std::string input;
  for (std::size_t w = 0; w < windows; ++w) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(w * kWindow);
    const auto middle = begin + kWindow / 2 + 1;  // the last position of the first half predicts nothing that counts
    input += Json{{"prompt_ids", std::vector(begin, middle)}, {"continuation_ids", std::vector(middle, begin + kWindow)}}.dump() + "\n";
  }
  const Outcome scored = run_kvpage({"score", "--model", model, "--input", "-"}, input);
  double sum = 0;
  std::size_t count = 0;
  for (const std::string& line : lines_of(scored.out)) {
    const Json score = Json::parse(line);
    for (const Json& token : score["continuation"]) sum -= token["logprob"].get<double>(), ++count;
  }
  const Outcome outcome = run_kvpage({"perplexity", "--model", model, "--file", dir / "text", "--ctx", std::to_string(kWindow)});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json result = Json::parse(outcome.out);
  CHECK(result["windows"] == windows);
  CHECK(result["scored_tokens"] == count);
  CHECK(result["mean_nll"].get<double>() == Approx(sum / static_cast<double>(count)).epsilon(1e-14));
  CHECK(result["perplexity"].get<double>() == Approx(std::exp(sum / static_cast<double>(count))).epsilon(1e-13));
  const Outcome short_text = run_kvpage({"perplexity", "--model", model, "--file", dir / "text", "--ctx", "128"});
  CHECK(short_text.exit_code == 2);
  CHECK(contains(short_text.err, std::to_string(ids.size())));
}

TEST_CASE("cli.bench.computes_what_was_asked", "[cli]") {
  const TinyFile tiny(plain_model());
  const Json result = bench(tiny.path(), {"--prompt-tokens", "20", "--gen", "9", "--depth", "11"});
  CHECK(result["prompt_ids"].size() == 20);
  CHECK(result["output_ids"].size() == 9);
  CHECK(result["generated_tokens"] == 9);
  CHECK(result["decode_steps"] == 8);
  CHECK(result["positions_computed"] == 11 + 20 + 8);
  CHECK(result["threads"] == 1);
  CHECK(result["kv_type"] == "f16");
  CHECK(result["kernels"] == "cpu");
  for (const char* time : {"load_s", "prefill_s", "decode_s"}) CHECK(result[time].get<double>() > 0);
  CHECK(bench(tiny.path(), {"--prompt-tokens", "20", "--gen", "9", "--depth", "11"})["output_ids"] == result["output_ids"]);
  const Json other = bench(tiny.path(), {"--prompt-tokens", "20", "--gen", "0", "--seed", "2"});
  CHECK(other["prompt_ids"] != result["prompt_ids"]);
  CHECK(other["output_ids"].empty());
  CHECK(other["positions_computed"] == 20);
  const Json reference = bench(tiny.path(), {"--prompt-tokens", "3", "--gen", "1", "--kernels", "reference"});
  CHECK(reference["kv_type"] == "f32");
  CHECK(reference["kernels"] == "reference");
}

TEST_CASE("cli.bench.any_name_of_a_model_is_json", "[cli]") {
  std::string bytes = tiny_gguf(plain_model()).bytes();
  const auto at = bytes.find("tiny", bytes.find("general.name"));
  REQUIRE(at != std::string::npos);
  bytes.replace(at, 4, "\"\\\n\x01");
  const TempDir dir;
  write_text(dir / "model.gguf", bytes);
  const Outcome outcome = run_kvpage({"bench", "--model", dir / "model.gguf", "--json", "--prompt-tokens", "2", "--gen", "1"});
  CHECK(outcome.exit_code == 0);
  CHECK_FALSE(Json::parse(outcome.out, nullptr, false).is_discarded());
}

TEST_CASE("cli.inspect.shows_sizes_types_and_texts", "[cli]") {
  const Outcome real = run_kvpage({"inspect", model_path("smollm2")});
  INFO(real.out << real.err);
  CHECK(real.exit_code == 0);
  for (const char* part : {"llama", "98362432 bytes", "49152 tokens", "8192 tokens", "9 query, 3 key/value, 64 dims", "Q4_1", "210 tensors",
                           "f16", "23040", "smollm", "<|im_end|>", "supported"}) {
    INFO(part);
    CHECK(contains(real.out, part));
  }
  const Outcome gemma = run_kvpage({"inspect", model_path("gemma3")});
  CHECK(contains(gemma.out, "sliding window   512 tokens in 15 of 18 layers"));
  CHECK(contains(gemma.out, "chat template    none"));
  CHECK(contains(gemma.out, "BOS added"));
}

TEST_CASE("cli.inspect.lists_the_kernel_of_every_matrix", "[cli]") {
  const TinyModel model = biased_model();
  const TinyFile tiny(model);
  for (const char* backend : {"cpu", "reference"}) {
    const Outcome outcome = run_kvpage({"inspect", "--kernels", "--backend", backend, tiny.path()});
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(lines_of(outcome.out).size() >= 1 + 2 + 7 * model.num_layers);
    for (const char* tensor : {"token_embd.weight", "blk.1.attn_output.weight", "blk.0.ffn_down.weight", "output.weight"}) {
      CHECK(contains(outcome.out, tensor));
    }
  }
}

}  // namespace kvpage_test
