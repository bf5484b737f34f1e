/// \file bench without a file: --batch, --mix, the progress line, and options that do not go together.
#include "cli/request_runs.hpp"
#include "engine/tiny_models.hpp"

#include <cstdlib>
#include <set>

namespace kvpage_test {

TEST_CASE("cli.batch.answers_are_those_of_the_same_prompts_one_by_one", "[cli]") {
  for (const TinyModel& model : {plain_model(), every_switch()}) {
    const TinyFile tiny(model);
    const Json batch = bench(tiny.path(), {"--batch", "4", "--prompt-tokens", "21", "--gen", "9"});
    const auto ids = bench(tiny.path(), {"--prompt-tokens", "84", "--gen", "1"})["prompt_ids"].get<std::vector<kvpage::TokenId>>();
    std::vector<Json> alone;
    for (int i = 0; i < 4; ++i) {
      alone.push_back(request(std::to_string(i), std::vector(ids.begin() + 21 * i, ids.begin() + 21 * (i + 1)), 9));
    }
    const Json serial = requests_of(tiny.path(), lines_of(alone), {"--max-seqs", "1", "--no-prefix-cache"});
    std::set<Json> different;
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(batch["output_ids"][i] == serial["requests"][i]["output_ids"]);
      different.insert(batch["output_ids"][i]);
    }
    CHECK(different.size() > 1);
    CHECK(batch["batch"] == 4);
    CHECK(batch["decode_steps"] == 8);  // each with all four; the first token of each is the prompt's
    CHECK(batch["decode_tokens_per_s"].get<double>() == Approx(4 * 8 / batch["decode_s"].get<double>()));
    CHECK(batch["prefill_tokens_per_s"].get<double>() == Approx(84 / batch["prefill_s"].get<double>()));
  }
}

TEST_CASE("cli.batch.many_prompts_of_many_steps", "[cli]") {
  const TinyFile tiny(quantised_model());
  const Json batch = bench(tiny.path(), {"--batch", "40", "--prompt-tokens", "50", "--gen", "3", "--seed", "5"});
  CHECK(batch["prefill_steps"] >= 4);  // 2,000 tokens in steps of 512
  CHECK(batch["decode_steps"] == 2);
  CHECK(batch["output_ids"].size() == 40);
  CHECK(bench(tiny.path(), {"--batch", "2", "--prompt-tokens", "5", "--gen", "0"})["output_ids"].empty());
  const Outcome text = run_kvpage({"bench", "--model", tiny.path(), "--batch", "2", "--prompt-tokens", "5", "--gen", "4"});
  CHECK(contains(text.out, "2 prompts of 5 tokens"));
  CHECK(contains(text.out, "3 steps"));
}

TEST_CASE("cli.mix.runs_without_a_file", "[cli]") {
  TinyModel model = plain_model();
  model.context = 8192;
  const TinyFile tiny(model);
  const Json random = bench(tiny.path(), {"--mix", "random", "--count", "5", "--seed", "3", "--max-seqs", "4"});
  REQUIRE(random["requests"].size() == 5);
  for (const Json& one : random["requests"]) CHECK(one["finish_reason"] == "length");
  CHECK(random["requests"][4]["id"] == "random-4");
  const Json again = bench(tiny.path(), {"--mix", "random", "--count", "5", "--seed", "3", "--rate", "200"});
  for (std::size_t i = 0; i < 5; ++i) CHECK(again["requests"][i]["output_ids"] == random["requests"][i]["output_ids"]);
  CHECK(again["requests"][4]["arrival_s"] > 0);
  CHECK(bench(tiny.path(), {"--mix", "chat", "--count", "6"})["totals"]["cached_tokens"] >= 96);
  CHECK(bench(tiny.path(), {"--mix", "code", "--count", "6"})["totals"]["cached_tokens"] > 0);
}

TEST_CASE("cli.bench.options_that_do_not_go_together_are_named", "[cli]") {
  const TinyFile tiny(plain_model());
  const auto refused = [&](std::vector<std::string> more, const std::vector<std::string>& parts) {
    more.insert(more.begin(), {"bench", "--model", tiny.path()});
    const Outcome outcome = run_kvpage(more);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    for (const std::string& part : parts) CHECK(contains(outcome.err, part));
    CHECK(outcome.out.empty());
  };
  refused({"--requests", "-", "--mix", "chat"}, {"--requests", "--mix"});
  refused({"--order", "fcfs"}, {"--order", "--requests or --mix"});
  refused({"--trace", "x"}, {"--trace", "--requests or --mix"});
  refused({"--count", "5"}, {"--count", "--mix"});
  refused({"--requests", "-", "--rate", "5"}, {"--rate", "--mix"});
  refused({"--requests", "-", "--gen", "5"}, {"--gen"});
  refused({"--batch", "2", "--depth", "5"}, {"--depth"});
  refused({"--batch", "2", "--mix", "random"}, {"--batch"});
  refused({"--mix", "random", "--batching", "static", "--order", "shortest"}, {"--batching static", "--order"});
  refused({"--mix", "noise"}, {"--mix", "noise", "random"});
  refused({"--mix", "random", "--order", "random"}, {"--order", "fair-share"});
  refused({"--mix", "random", "--max-seqs", "32", "--budget-tokens", "32"}, {"--budget-tokens 32", "--max-seqs 32", "33"});
  refused({"--mix", "random", "--budget-tokens", "9000"}, {"--budget-tokens", "8192"});
}

TEST_CASE("cli.progress.a_run_is_one_line_on_a_terminal_and_lines_of_json", "[cli]") {
  const TinyFile tiny(plain_model());
  const TempDir dir;
  const std::string lines = lines_of({request("a", some_ids(30), 20), request("b", some_ids(20, 2), 10)});
  write_text(dir / "requests", lines);
  const Outcome json = run_requests(tiny.path(), lines, {"--progress", "json"});
  for (const char* part : {"\"stage\":\"requests\"", "\"running\":", "\"waiting\":", "\"tokens_per_s\":", "\"pool_share\":",
                           "\"done\":2,\"total\":2"}) {
    INFO(part);
    CHECK(contains(json.err, part));
  }
  CHECK_FALSE(contains(run_requests(tiny.path(), lines, {"--progress", "none"}).err, "running"));
  CHECK_FALSE(contains(run_requests(tiny.path(), lines).err, "running"));  // no terminal
  const std::string program = std::string(KVPAGE_PROGRAM) + " bench --model " + tiny.path().string() + " --threads 1 --requests " +
                              (dir / "requests").string();
  REQUIRE(std::system(("script -qec '" + program + "' /dev/null > " + (dir / "screen").string() + " < /dev/null").c_str()) == 0);
  const std::string screen = read_text(dir / "screen");
  INFO(screen);
  for (const char* part : {" running, ", " waiting, ", " tok/s, pool ", "/2 finished", "\r\033[K", "2 requests, 0 failed"}) {
    INFO(part);
    CHECK(contains(screen, part));
  }
}

}  // namespace kvpage_test
