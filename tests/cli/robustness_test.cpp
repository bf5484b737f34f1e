/// \file What a program owes its user when things go wrong half-way: signals, full disks, odd numbers, odd bytes.
#include "cli/program.hpp"
#include "engine/tiny_models.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace kvpage_test {

TEST_CASE("cli.run.interrupt_ends_a_long_prompt_too", "[cli]") {
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
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "\n");
  CHECK(contains(outcome.err, "interrupted"));
}

TEST_CASE("cli.run.the_context_is_exactly_what_was_asked_for", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::vector<std::string> arguments{"run", "--model", tiny.path(), "--raw", "--prompt", "abcdefgh", "--ctx", "7"};
  const Outcome outcome = run_kvpage(arguments);
  CHECK(outcome.exit_code == 4);
  CHECK(contains(outcome.err, "(8, limit 7 tokens); use a larger --ctx"));
}

TEST_CASE("cli.output.a_full_disk_is_a_failure", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::string command =
      std::string("printf ab | '") + KVPAGE_PROGRAM + "' tokenize --model '" + tiny.path().string() + "' > /dev/full 2> /dev/null";
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("cli.detokenize.deeply_nested_input_is_refused", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::string nested = "[" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "]";
  const Outcome outcome = run_kvpage({"detokenize", "--model", tiny.path()}, nested);
  CHECK(outcome.exit_code == 2);
  CHECK(contains(outcome.err, "element 0"));
}

TEST_CASE("cli.tokenize.bytes_without_a_token_are_said_aloud", "[cli]") {
  const Outcome outcome = run_kvpage({"tokenize", "--model", model_path("smollm2").string()},
                                     "a\xff"
                                     "b\xf5");
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.err, "2 bytes of the text have no token"));
}

TEST_CASE("cli.inspect.every_operation_has_its_kernel", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  for (const char* backend : {"cpu", "reference"}) {
    const Outcome outcome = run_kvpage({"inspect", "--kernels", "--backend", backend, tiny.path()});
    for (const char* operation : {"embedding", "rms_norm", "gemm", "rope", "append_kv", "paged_attention", "activation", "sample"}) {
      INFO(backend << " " << operation);
      CHECK(contains(outcome.out, operation));
    }
  }
}

TEST_CASE("cli.bench.prompt_ids_are_all_different", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const Outcome outcome = run_kvpage({"bench", "--model", tiny.path(), "--prompt-tokens", "64", "--gen", "1", "--json"});
  const auto begin = outcome.out.find("\"prompt_ids\": [") + 15;
  const std::string list = outcome.out.substr(begin, outcome.out.find(']', begin) - begin);
  std::vector<std::string> ids;
  for (std::size_t at = 1; at < list.size(); at = list.find(' ', at) == std::string::npos ? list.size() : list.find(' ', at) + 1) {
    ids.push_back(list.substr(at, list.find(',', at) - at));
  }
  CHECK(ids.size() == 64);
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

}  // namespace kvpage_test
