/// \file What was not measured: null in JSON, absent in text, and no key goes. What a program says of runs of no, one and half a token.
#include "cli/request_runs.hpp"
#include "engine/tiny_models.hpp"

#include <set>

namespace kvpage_test {
namespace {

/// The keys of an object and of the objects in it, as paths.
std::set<std::string> keys_of(const Json& value, const std::string& before = "") {
  std::set<std::string> keys;
  if (!value.is_object()) return keys;
  for (const auto& item : value.items()) {
    keys.insert(before + item.key());
    keys.merge(keys_of(item.value(), before + item.key() + "."));
  }
  return keys;
}

/// A tiny model whose chat template is another one, of at most as many bytes.
void write_with_template(const std::filesystem::path& path, const std::string& source) {
  std::string bytes = tiny_gguf({}).bytes();
  const std::string first = "{% for m in messages %}", last = "{{ '<|im_start|>assistant\\n' }}{% endif %}";
  const std::size_t begin = bytes.find(first), end = bytes.find(last) + last.size();
  REQUIRE((begin != std::string::npos && end > begin && end - begin > source.size() + 4));
  std::string padded = source + "{#";
  padded.resize(end - begin - 2, ' ');
  bytes.replace(begin, end - begin, padded + "#}");
  write_text(path, bytes);
}

}  // namespace

TEST_CASE("cli.figures.a_bench_without_decode_steps_has_no_decode_time", "[cli]") {
  const TinyFile tiny(plain_model());
  const Json whole = bench(tiny.path(), {"--prompt-tokens", "5", "--gen", "3"});
  const Json profiled = bench(tiny.path(), {"--prompt-tokens", "5", "--gen", "3", "--profile"});
  const Json batch = bench(tiny.path(), {"--batch", "2", "--prompt-tokens", "5", "--gen", "3"});
  for (const char* gen : {"0", "1"}) {
    INFO(gen);
    const Json one = bench(tiny.path(), {"--prompt-tokens", "5", "--gen", gen});
    CHECK(one["decode_s"].is_null());
    CHECK(one["decode_steps"] == 0);
    CHECK(one["prefill_s"] > 0);
    CHECK(keys_of(one) == keys_of(whole));
    const Json several = bench(tiny.path(), {"--batch", "2", "--prompt-tokens", "5", "--gen", gen});
    CHECK(several["decode_s"].is_null());
    CHECK(several["decode_tokens_per_s"].is_null());
    CHECK(keys_of(several) == keys_of(batch));
  }
  CHECK(whole["decode_s"] > 0);
  const Json profile = bench(tiny.path(), {"--prompt-tokens", "5", "--gen", "1", "--profile"})["profile"];
  CHECK(profile["decode"].is_null());
  CHECK(profile["prefill"]["steps"] == 1);
  CHECK(profiled["profile"]["decode"]["steps"] == 2);
  const Outcome text = run_kvpage({"bench", "--model", tiny.path(), "--prompt-tokens", "5", "--gen", "1"});
  CHECK(contains(text.out, "prefill"));
  CHECK_FALSE(contains(text.out, "decode"));
}

TEST_CASE("cli.figures.requests_have_what_was_measured", "[cli]") {
  const TinyFile tiny(plain_model());
  const Json full = requests_of(tiny.path(), lines_of({request("a", some_ids(9), 5, {{"n", 2}, {"temperature", 1}, {"logprobs", 0}})}));
  CHECK(full["requests"][0]["answers"][0]["sum_logprob"] < 0);
  const Json one = requests_of(tiny.path(), lines_of({request("a", some_ids(9), 1, {{"n", 2}, {"temperature", 1}})}));
  CHECK(one["requests"][0]["ttft_s"] > 0);
  CHECK(one["requests"][0]["time_per_token_s"].is_null());
  CHECK(one["requests"][0]["cached_tokens"] == 0);
  CHECK(one["requests"][0]["answers"][0]["sum_logprob"].is_null());
  CHECK(one["totals"]["time_per_token_s"] == Json{{"p50", nullptr}, {"p90", nullptr}, {"p99", nullptr}});
  CHECK(one["totals"]["ttft_s"]["p50"] == one["requests"][0]["ttft_s"]);
  CHECK(keys_of(one) == keys_of(full));
  // Its deadline is over before its first step; the refused one leaves nothing at all to measure.
  const std::string none_lines = lines_of({request("late", some_ids(9), 5, {{"deadline_ms", 0.001}}), request("long", some_ids(200), 5)});
  const Json none = requests_of(tiny.path(), none_lines, {"--ctx", "64"});
  INFO(none.dump(1));
  for (const char* key : {"ttft_s", "time_per_token_s", "cached_tokens"}) CHECK(none["requests"][0][key].is_null());
  CHECK(none["requests"][0]["end_to_end_s"] > 0);
  for (const char* key : {"ttft_s", "time_per_token_s", "end_to_end_s", "cached_tokens"}) CHECK(none["requests"][1].at(key).is_null());
  CHECK(none["totals"]["ttft_s"]["p99"].is_null());
  CHECK(none["totals"]["output_tokens"] == 0);
  CHECK(keys_of(none) == keys_of(full));
  const Outcome text = run_kvpage({"bench", "--model", tiny.path(), "--requests", "-", "--ctx", "64"}, none_lines);
  INFO(text.out);
  CHECK_FALSE(contains(text.out, "p50"));
  CHECK(contains(text.out, " -          - "));
}

TEST_CASE("cli.figures.a_run_of_nothing_has_no_means", "[cli]") {
  const TinyFile tiny(plain_model());
  const Json some = requests_of(tiny.path(), lines_of({request("a", some_ids(9), 5)}), {"--slo-ttft-ms", "1e9"});
  const Json none = requests_of(tiny.path(), "", {"--slo-ttft-ms", "1e9"});
  for (const char* mean : {"mean_budget_utilisation", "peak_budget_utilisation", "mean_utilisation", "goodput", "output_tokens_per_s"}) {
    INFO(mean);
    CHECK(none["totals"][mean].is_null());
    CHECK(some["totals"][mean] > 0);
  }
  CHECK(none["totals"]["end_to_end_s"]["p50"].is_null());
  CHECK(none["totals"]["requests"] == 0);
  CHECK(keys_of(none) == keys_of(some));
  // A first token that did not come is not in time.
  const std::string lines = lines_of({request("late", some_ids(9), 5, {{"deadline_ms", 0.001}}), request("good", some_ids(9), 5)});
  const Json late = requests_of(tiny.path(), lines, {"--slo-ttft-ms", "1e9"});
  CHECK(late["totals"]["goodput"].get<double>() * late["totals"]["wall_s"].get<double>() == Approx(1));
}

TEST_CASE("cli.figures.an_interrupted_prompt_has_no_first_token", "[cli]") {
  TinyModel model;
  model.context = 1'000'000;
  const TinyFile tiny(model);
  std::string prompt;
  for (int i = 0; i < 40'000; ++i) prompt += "ab";
  // The double kernels need minutes for this prompt.
  Program program(
      {"run", "--model", tiny.path(), "--raw", "--kernels", "reference", "--ctx", "100000", "--prompt", prompt, "--progress", "json"});
  REQUIRE(program.wait_for_errors("prefill"));
  program.interrupt();
  const Outcome outcome = program.wait();
  const std::string last = outcome.err.substr(outcome.err.find("[80000"));
  INFO(last);
  CHECK(contains(last, "80000 prompt tokens, "));
  CHECK(contains(last, " s, no token; interrupted]"));
  for (const char* unmeasured : {"first token", "tok/s", "0 tokens"}) CHECK_FALSE(contains(last, unmeasured));
}

TEST_CASE("cli.figures.one_token_has_no_rate", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const Outcome outcome = run_kvpage({"run", "--model", tiny.path(), "--raw", "--prompt", "ab", "--max-tokens", "1"});
  INFO(outcome.err);
  const std::size_t first = outcome.err.find("tok/s");  // that of the prompt
  CHECK(first != std::string::npos);
  CHECK(outcome.err.find("tok/s", first + 1) == std::string::npos);
  CHECK(contains(outcome.err, "1 tokens; --max-tokens reached]"));
}

TEST_CASE("cli.limits.the_one_that_counts_is_named", "[cli]") {
  const TinyFile tiny{TinyModel{}};  // of 128 tokens
  const auto run = [&](std::size_t length, const std::string& ctx, std::string_view input = {}) {
    std::vector<std::string> arguments{"run", "--model", tiny.path(), "--ctx", ctx, "--max-tokens", "500", "--progress", "json"};
    if (length > 0) arguments.insert(arguments.end(), {"--raw", "--prompt", std::string(length, 'x')});
    return run_kvpage(arguments, input);
  };
  const Outcome asked = run(40, "32"), model = run(200, "128"), open = run(200, "0");
  INFO(asked.err << model.err << open.err);
  for (const Outcome& outcome : {asked, model, open}) {
    CHECK(outcome.exit_code == 4);
    CHECK_FALSE(contains(outcome.err, "\"stage\""));  // nothing was loaded
  }
  CHECK(contains(asked.err, "(40, limit 32 tokens); use a larger --ctx (the model's limit is 128)"));
  for (const Outcome& outcome : {model, open}) {
    CHECK(contains(outcome.err, "(200, limit 128 tokens); that is the limit of the model itself"));
    CHECK_FALSE(contains(outcome.err, "--ctx"));
  }
  CHECK(contains(run(100, "120").err, "context full: 120 tokens (see --ctx)"));
  CHECK(contains(run(100, "128").err, "context full: 128 tokens, the model's limit"));
  const std::string line = R"({"prompt_ids": [1, 2, 3], "continuation_ids": [4, 5]})";
  const Outcome score = run_kvpage({"score", "--model", tiny.path(), "--input", "-", "--ctx", "3"}, line + "\n");
  CHECK(score.exit_code == 4);
  CHECK(contains(score.err, "-:1: 4 tokens do not fit into a context of 3; use a larger --ctx"));
  CHECK(score.out.empty());
  CHECK(run_kvpage({"score", "--model", tiny.path(), "--input", "-", "--ctx", "4"}, line + "\n").exit_code == 0);
}

TEST_CASE("cli.run.a_piped_line_that_does_not_fit_ends_the_chat", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::vector<std::string> arguments{"run", "--model", tiny.path(), "--max-tokens", "3"};
  const std::string answer = run_kvpage(arguments, "hi\n").out;
  const Outcome outcome = run_kvpage(arguments, "hi\n\n" + std::string(200, 'x') + "\nhi\n");
  INFO(outcome.err);
  CHECK(outcome.exit_code == 4);
  CHECK(outcome.out == answer);
  CHECK(contains(outcome.err, "line 3 of standard input: "));
  CHECK(contains(outcome.err, "limit 128 tokens"));
}

TEST_CASE("cli.run.a_template_that_leaves_out_messages_is_warned_of", "[cli]") {
  const TempDir dir;
  const auto warning = [&](const std::string& source, const std::string& prompt) {
    write_with_template(dir / "model.gguf", source);
    const Outcome outcome =
        run_kvpage({"run", "--model", dir / "model.gguf", "--max-tokens", "1", "--prompt", prompt, "--system", "be brief"});
    INFO(source << ": " << outcome.err);
    CHECK(outcome.exit_code == 0);
    const std::size_t found = outcome.err.find("leaves out what the ");
    return found == std::string::npos ? "" : outcome.err.substr(found + 20, outcome.err.find(" says") - found - 20);
  };
  CHECK(warning("{% for m in messages %}{{ m['content'] | trim }}{% endfor %}", "  hi\n") == "");
  CHECK(warning("{% for m in messages %}{{ m['content'] | tojson }}{% endfor %}", "a \"b\"") == "");
  CHECK(warning("Hello", "hi there") == "system");
  CHECK(warning("{% for m in messages %}{{ m['role'] }}{% endfor %}be brief", "hi there") == "user");
  CHECK(warning("{{ messages[1]['content'] }}", "hi there") == "system");
}

TEST_CASE("cli.ids.what_the_vocabulary_lacks_is_named_with_its_place", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const auto fails = [&](std::vector<std::string> arguments, std::string_view input, const std::vector<std::string>& parts) {
    arguments.insert(arguments.begin() + 1, {"--model", tiny.path()});
    const Outcome outcome = run_kvpage(arguments, input);
    INFO(arguments.front() << ' ' << input << ": " << outcome.err);
    CHECK(outcome.exit_code == 2);
    for (const std::string& part : parts) CHECK(contains(outcome.err, part));
  };
  fails({"detokenize"}, "[1, 2, 272]", {"standard input", "[0, 272)", "not 272", "element 2"});
  fails({"detokenize"}, "[1, -2]", {"not -2", "element 1"});
  fails({"detokenize"}, "[1, 1.0]", {"not 1.0", "element 1"});
  fails({"detokenize"}, "[1, 4294967296]", {"not 4294967296", "element 1"});
  fails({"detokenize"}, "[1, 100000000000000000000000]", {"not 100000000000000000000000", "element 1"});
  fails({"detokenize"}, "[1, \xff]", {"standard input: byte 5 (0xff) is not UTF-8"});
  fails({"score", "--input", "-"}, "\n{\"prompt_ids\": [1, 300], \"continuation_ids\": []}", {"-:2: prompt_ids", "not 300", "element 1"});
  fails({"score", "--input", "-"}, "{\"prompt_ids\": [1], \"continuation_ids\": [300]}", {"-:1: continuation_ids", "not 300"});
  fails({"run", "--raw", "--prompt", "a", "--logit-bias", "272=1"}, "", {"--logit-bias", "not 272", "vocabulary"});
  const std::string deep = "{\"prompt_ids\": " + std::string(300'000, '[') + std::string(300'000, ']') + ", \"continuation_ids\": []}";
  fails({"score", "--input", "-"}, deep, {"-:1: prompt_ids", "an array of 1", "element 0"});
  const Outcome warned = run_kvpage({"run", "--model", tiny.path(), "--raw", "--prompt", "ab\xc3(", "--max-tokens", "1"});
  CHECK(warned.exit_code == 0);
  CHECK(contains(warned.err, "byte 3 (0xc3) is not UTF-8"));
}

}  // namespace kvpage_test
