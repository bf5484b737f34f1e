/// \file Help, wrong arguments and files that cannot be loaded: exit codes and what the message names.
#include "cli/program.hpp"
#include "engine/tiny_models.hpp"

#include <cmath>
#include <utility>

namespace kvpage_test {
namespace {

const std::vector<std::string> kVerbs{"run", "tokenize", "detokenize", "score", "perplexity", "bench", "plan",
                                      "inspect", "template", "trace"};

/// The program fails with this code, says all of `parts` on standard error and nothing on standard output.
void check_failure(const std::vector<std::string>& arguments, int exit_code, const std::vector<std::string>& parts) {
  const Outcome outcome = run_kvpage(arguments);
  INFO((arguments.empty() ? "no arguments" : arguments.front()) << ": " << outcome.err);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.out.empty());
  for (const std::string& part : parts) CHECK(contains(outcome.err, part));
}

}  // namespace

TEST_CASE("cli.help.every_verb_has_an_example", "[cli]") {
  const Outcome all = run_kvpage({"--help"});
  CHECK(all.exit_code == 0);
  for (const std::string& verb : kVerbs) {
    INFO(verb);
    CHECK(contains(all.out, verb));
    const Outcome help = run_kvpage({verb, "--help"});
    CHECK(help.exit_code == 0);
    CHECK(help.err.empty());
    CHECK(contains(help.out, "Example"));
    CHECK(contains(help.out, "kvpage " + verb + " "));
  }
  CHECK(contains(run_kvpage({"--version"}).out, "kvpage "));
}

TEST_CASE("cli.usage.wrong_arguments_exit_with_2", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::string model = tiny.path();
  check_failure({"--no-such-flag"}, 2, {"--no-such-flag"});
  check_failure({"sing"}, 2, {"sing"});
  check_failure({}, 2, {"verb", "--help"});
  check_failure({"run", "--prompt", "x"}, 2, {"--model"});
  check_failure({"run", "--model", model, "--prompt", "x", "--kv-type", "f17"}, 2, {"--kv-type", "f17", "f16", "f32"});
  check_failure({"run", "--model", model, "--prompt", "x", "--kernels", "gpu"}, 2, {"--kernels", "gpu", "cpu", "reference"});
  check_failure({"run", "--model", model, "--prompt", "x", "--max-tokens", "0"}, 2, {"--max-tokens"});
  check_failure({"run", "--model", model, "--prompt", "x", "--temperature", "-1"}, 2, {"--temperature"});
  check_failure({"run", "--model", model, "--prompt", "x", "--top-k", "-2"}, 2, {"top"});
  check_failure({"run", "--model", model, "--raw", "--prompt", ""}, 2, {"no tokens"});
  check_failure({"template", "--messages", model}, 2, {"--model", "--template"});
}

TEST_CASE("cli.usage.bad_input_lines_are_named", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const TempDir dir;
  const auto check = [&](std::string_view line, const std::string& part) {
    write_text(dir / "in.jsonl", std::string("{\"prompt_ids\": [1], \"continuation_ids\": []}\n") + std::string(line) + "\n");
    check_failure({"score", "--model", tiny.path(), "--input", (dir / "in.jsonl").string()}, 2, {"in.jsonl:2", part});
  };
  check("{\"prompt_ids\": [272], \"continuation_ids\": []}", "[0, 272)");
  check("{\"prompt_ids\": [-1], \"continuation_ids\": []}", "prompt_ids");
  check("{\"prompt_ids\": [1.5], \"continuation_ids\": []}", "prompt_ids");
  check("{\"prompt_ids\": [], \"continuation_ids\": []}", "empty");
  check("{\"prompt_ids\": [1]}", "continuation_ids");
  check("[1]", "object");
  check("{\"prompt_ids\": [1", "parse");
}

TEST_CASE("cli.load.files_that_cannot_be_loaded_exit_with_3", "[cli]") {
  const TempDir dir;
  const std::string missing = dir / "missing.gguf", text = dir / "letter.gguf", cut = dir / "cut.gguf", not_a_number = dir / "nan.gguf";
  const std::string messages = dir / "messages.json";
  const std::string lines = dir / "lines.jsonl";  // what is wrong with inputs would be said first
  write_text(messages, "[]");
  write_text(lines, "{\"prompt_ids\": [1], \"continuation_ids\": []}\n");
  write_text(text, "Dear reader, this is no model.\n");
  const std::string bytes = tiny_gguf({}).bytes();
  write_text(cut, std::string_view(bytes).substr(0, bytes.size() - 100));
  GgufWriter writer = tiny_gguf({});
  set_float(tensor_of(writer, "output_norm.weight"), 3, std::nanf(""));
  writer.write(not_a_number);
  for (const std::string verb : {"run", "bench", "score", "perplexity"}) {
    std::vector<std::string> arguments{verb, "--model", ""};
    if (verb == "run") arguments.insert(arguments.end(), {"--prompt", "x"});
    if (verb == "score") arguments.insert(arguments.end(), {"--input", lines});
    if (verb == "perplexity") arguments.insert(arguments.end(), {"--file", text, "--ctx", "4"});
    if (verb == "bench") arguments.insert(arguments.end(), {"--prompt-tokens", "4", "--gen", "1"});
    const std::pair<std::string, const char*> files[] = {
        {missing, "missing.gguf"}, {text, "GGUF"}, {cut, "cut.gguf"}, {not_a_number, "output_norm.weight"}};
    for (const auto& [file, part] : files) {
      arguments[2] = file;
      check_failure(arguments, 3, {part, file});
    }
  }
  for (const std::string& file : {missing, text, cut}) {
    check_failure({"inspect", file}, 3, {file});
    check_failure({"plan", file}, 3, {file});
    check_failure({"tokenize", "--model", file}, 3, {file});
    check_failure({"template", "--model", file, "--messages", messages}, 3, {file});
  }
  check_failure({"inspect", dir / "."}, 3, {});
}

TEST_CASE("cli.load.missing_input_files_exit_with_3", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::string model = tiny.path(), missing = model + ".missing";
  check_failure({"score", "--model", model, "--input", missing}, 3, {missing});
  check_failure({"tokenize", "--model", model, "--file", missing}, 3, {missing});
  check_failure({"perplexity", "--model", model, "--file", missing}, 3, {missing});
  check_failure({"template", "--model", model, "--messages", missing}, 3, {missing});
}

TEST_CASE("cli.fit.what_does_not_fit_exits_with_4_and_both_numbers", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::string model = tiny.path(), prompt(77, 'x');
  check_failure({"run", "--model", model, "--raw", "--prompt", prompt, "--ctx", "32"}, 4, {"77", "32", "--ctx"});
  check_failure({"run", "--model", model, "--raw", "--prompt", "x", "--ctx", "129"}, 4, {"129", "128"});
  check_failure({"bench", "--model", model, "--prompt-tokens", "100", "--gen", "29"}, 4, {"129", "128"});
}

TEST_CASE("cli.run.logits_that_are_no_numbers_exit_with_1", "[cli]") {
  GgufWriter writer = tiny_gguf({});
  for (std::size_t i = 0; i < 16; ++i) set_float(tensor_of(writer, "output_norm.weight"), i, 3e38f);
  const TinyFile tiny(writer);
  const Outcome outcome = run_kvpage({"run", "--model", tiny.path(), "--raw", "--prompt", "abc"});
  CHECK(outcome.exit_code == 1);
  CHECK(contains(outcome.err, "NaN or infinite"));
  CHECK(outcome.out.empty());
}

}  // namespace kvpage_test
