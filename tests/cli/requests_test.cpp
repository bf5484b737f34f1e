/// \file bench --requests: what a small pool, a host tier and shared prefixes do to requests (nothing), and what the counters say.
#include "cli/request_runs.hpp"
#include "engine/tiny_models.hpp"
#include "support/environment.hpp"

namespace kvpage_test {

TEST_CASE("cli.requests.a_small_pool_changes_no_id_of_a_real_model", "[cli]") {
  const std::string model = model_path("smollm2");
  const auto shared = counting(1000, 70), other = counting(9000, 185);
  const std::string lines = lines_of({request("a", joined(shared, counting(30, 9)), 10), request("b", joined(shared, counting(90, 20)), 6),
                                      request("scan", other, 8), request("a again", joined(shared, counting(30, 9)), 10),
                                      request("text", "The capital of France is", 6), request("c", joined(shared, counting(500, 30)), 6)});
  const Json alone = requests_of(model, lines, {"--no-prefix-cache"});
  const Json roomy = requests_of(model, lines, {"--max-seqs", "1"});
  const Json small = requests_of(model, lines, {"--max-seqs", "1", "--pool-blocks", "7", "--host-tier", "16M", "--evict", "lru"});
  INFO(small.dump(1));
  CHECK(answers_of(alone) == answers_of(roomy));
  CHECK(answers_of(alone) == answers_of(small));
  for (const char* counter : {"copies", "evictions", "demoted", "promoted", "cached_tokens"}) {
    INFO(counter);
    CHECK(small["totals"][counter] > 0);
    CHECK(alone["totals"][counter] == 0);
  }
  CHECK(small["totals"]["peak_used_blocks"] <= 7);
  CHECK(small["totals"]["num_blocks"] == 7);
  CHECK(roomy["totals"]["evictions"] == 0);
  for (const Json& one : roomy["requests"]) {
    CHECK(one["finish_reason"] == "length");
    CHECK(one["cached_tokens"].get<std::int64_t>() + one["positions_computed"].get<std::int64_t>() ==
          one["prompt_tokens"].get<std::int64_t>() + static_cast<std::int64_t>(one["output_ids"].size()) - 1);
    for (const char* time : {"ttft_s", "time_per_token_s", "end_to_end_s"}) CHECK(one[time] > 0);
  }
  CHECK(roomy["requests"][1]["cached_tokens"] == 70);
  CHECK(roomy["requests"][3]["cached_tokens"] == 78);  // all but the token that gives the logits
}

TEST_CASE("cli.requests.what_can_never_fit_has_an_error_and_the_others_go_on", "[cli]") {
  const TinyFile tiny(plain_model());
  const std::string lines = lines_of({request("long", some_ids(100), 5), request("short", some_ids(20), 5),
                                      request("beyond", some_ids(200), 5), request("short again", some_ids(20), 5),
                                      request("cut", some_ids(60), 50)});
  const Json result = requests_of(tiny.path(), lines, {"--pool-blocks", "3", "--ctx", "128", "--max-seqs", "1"});
  INFO(result.dump(1));
  const Json& requests = result["requests"];
  CHECK(requests[0]["error"]["kind"] == "never_fits");
  CHECK(requests[0]["error"]["value"] == 100);
  CHECK(requests[0]["error"]["limit"] == 96);  // three pages of 32
  CHECK(requests[0]["error"]["unit"] == "tokens");
  CHECK(requests[2]["error"]["kind"] == "context_limit");
  CHECK(requests[2]["error"]["value"] == 200);
  CHECK(requests[2]["error"]["limit"] == 128);
  for (const std::size_t i : {std::size_t{1}, std::size_t{3}}) {
    CHECK_FALSE(requests[i].contains("error"));
    CHECK(requests[i]["output_ids"].size() == 5);
  }
  CHECK(requests[3]["cached_tokens"] == 19);
  CHECK(requests[4]["finish_reason"] == "capacity");
  CHECK(requests[4]["output_ids"].size() == 37);  // the last one takes no place
  CHECK(result["totals"]["failed"] == 2);
  CHECK(result["totals"]["refused"] == 2);
  CHECK(result["totals"]["prompt_tokens"] == 100);  // of those that were answered
  CHECK(result["totals"]["interrupted"] == false);
}

TEST_CASE("cli.requests.memory_that_is_not_there_is_refused_by_its_option", "[cli]") {
  const TinyFile tiny(plain_model());
  const std::string one = lines_of({request("a", some_ids(3), 2)});
  const auto refused = [&](const char* option, const char* value, int exit_code, const std::string& why) {
    const Outcome outcome = run_requests(tiny.path(), one, {option, value});
    INFO(option << ' ' << value << ": " << outcome.err);
    CHECK(outcome.exit_code == exit_code);
    CHECK(contains(outcome.err, why));
    CHECK_FALSE(contains(outcome.err, "--ctx"));
    CHECK(outcome.out.empty());
  };
  refused("--host-tier", "100", 2, "smaller than one page");
  refused("--host-tier", "10E", 2, "--host-tier");
  refused("--host-tier", "-1", 2, "--host-tier");
  refused("--pool-blocks", "2000000000", 4, "fewer --pool-blocks (at most ");
  const Outcome tier = run_requests(tiny.path(), one, {"--host-tier", "2T"});
  INFO(tier.err);
  CHECK(tier.exit_code == 4);
  CHECK(contains(tier.err, "host tier "));
  CHECK(contains(tier.err, "use a smaller --host-tier or a narrower --kv-type"));
}

TEST_CASE("cli.requests.a_full_queue_refuses", "[cli]") {
  const TinyFile tiny(plain_model());
  std::vector<Json> all;
  for (int i = 0; i < 6; ++i) all.push_back(request(std::to_string(i), some_ids(8, static_cast<std::uint32_t>(i)), 3));
  const Json result = requests_of(tiny.path(), lines_of(all), {"--max-waiting", "4"});
  for (std::size_t i = 0; i < 4; ++i) CHECK(result["requests"][i]["output_ids"].size() == 3);
  for (std::size_t i = 4; i < 6; ++i) {
    CHECK(result["requests"][i]["error"]["kind"] == "queue_full");
    CHECK(result["requests"][i]["error"]["value"] == 5);
    CHECK(result["requests"][i]["error"]["limit"] == 4);
  }
}

TEST_CASE("cli.requests.a_run_that_is_not_complete_says_so", "[cli]") {
  GgufWriter writer = tiny_gguf(plain_model());
  auto& norm = tensor_of(writer, "output_norm.weight");  // finite weights whose logits overflow
  for (std::size_t i = 0; i < norm.data.size() / sizeof(float); ++i) set_float(norm, i, 3e38f);
  const TinyFile overflowing(writer);
  const Outcome failed = run_requests(overflowing.path(), lines_of({request("a", some_ids(3), 2), request("b", some_ids(3), 2)}));
  CHECK(failed.exit_code == 1);
  const Json failures = Json::parse(failed.out);
  CHECK(failures["requests"][1]["error"]["kind"] == "failed");
  CHECK(failures["totals"]["failed"] == 2);
  CHECK(failures["totals"]["interrupted"] == false);
  CHECK(failures["totals"]["not_run"] == 0);
  CHECK(failures["totals"]["prompt_tokens"] == 0);  // nothing was answered

  const TinyFile tiny(plain_model());
  std::vector<Json> many;
  for (int i = 0; i < 20'000; ++i) many.push_back(request(std::to_string(i), some_ids(8, static_cast<std::uint32_t>(i)), 100));
  Program program({"bench", "--model", tiny.path(), "--requests", "-", "--json", "--threads", "1", "--progress", "json"}, lines_of(many));
  REQUIRE(program.wait_for_errors("\"requests\""));
  program.interrupt();
  const Outcome outcome = program.wait();
  CHECK(outcome.exit_code == 1);
  const Json totals = Json::parse(outcome.out)["totals"];
  CHECK(totals["interrupted"] == true);
  CHECK(totals["not_run"] > 0);
  CHECK(totals["requests"].get<std::int64_t>() + totals["not_run"].get<std::int64_t>() == 20'000);
  CHECK(contains(outcome.err, "\"tokens_per_s\""));
}

TEST_CASE("cli.requests.a_trace_and_a_table_are_written", "[cli]") {
  const TinyFile tiny(plain_model());
  const TempDir dir;
  write_text(dir / "requests.jsonl", lines_of({request("a", some_ids(40), 3), request("b", some_ids(40), 3)}));
  const Outcome outcome =
      run_kvpage({"bench", "--model", tiny.path(), "--requests", dir / "requests.jsonl", "--trace", dir / "trace.jsonl",
                  "--max-seqs", "1"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(contains(outcome.out, "2 requests, 0 failed; 39 of 80 prompt tokens cached"));
  const std::string trace = read_text(dir / "trace.jsonl");
  for (const char* part : {"\"submit\"", "\"plan\"", "\"finish\"", "\"policy\"", "\"lru\""}) {
    INFO(part);
    CHECK(contains(trace, part));
  }
  CHECK(contains(outcome.out, "0 failed to load"));
}

TEST_CASE("cli.requests.a_trace_that_cannot_be_is_refused_before_the_model_is_loaded", "[cli]") {
  const TinyFile tiny(plain_model());
  const TempDir dir;
  const std::string lines = lines_of({request("a", some_ids(40), 3)});
  write_text(dir / "requests.jsonl", lines);
  const auto refused = [&](const std::string& trace, int exit_code, const std::string& why) {
    const Outcome outcome = run_kvpage({"bench", "--model", tiny.path(), "--requests", dir / "requests.jsonl", "--trace", trace,
                                        "--progress", "json"});
    INFO(outcome.err);
    CHECK(outcome.exit_code == exit_code);
    CHECK(contains(outcome.err, why));
    CHECK_FALSE(contains(outcome.err, "\"stage\""));
  };
  std::filesystem::create_hard_link(dir / "requests.jsonl", dir / "other name.jsonl");
  refused(dir / "no such folder" / "trace.jsonl", 1, "cannot create the trace");
  refused(dir / "requests.jsonl", 2, "would overwrite");
  refused(dir / "other name.jsonl", 2, "would overwrite");
  refused(tiny.path(), 2, "would overwrite");
  CHECK(read_text(dir / "requests.jsonl") == lines);
}

TEST_CASE("cli.run.a_second_turn_finds_the_first_in_the_cache", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::vector<std::string> arguments{"run", "--model", tiny.path(), "--max-tokens", "3"};
  const Outcome shared = run_kvpage(arguments, "hi\nthere\n");
  CHECK(contains(shared.err, " cached), first token"));
  std::vector<std::string> without = arguments;
  without.push_back("--no-prefix-cache");
  const Outcome alone = run_kvpage(without, "hi\nthere\n");
  CHECK_FALSE(contains(alone.err, "cached"));
  CHECK(alone.out == shared.out);
}

TEST_CASE("cli.score.continuations_alone_share_their_prompts", "[cli]") {
  const TinyFile tiny(every_switch());
  std::string lines;
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    lines += Json{{"prompt_ids", joined(some_ids(50), some_ids(3, seed))}, {"continuation_ids", some_ids(4, seed)}}.dump() + "\n";
  }
  const auto score = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"score", "--model", tiny.path(), "--input", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_kvpage(arguments, lines);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return outcome.out;
  };
  std::string whole;
  const std::string full = score({});
  for (std::size_t at = 0; at < full.size();) {  // the same without prompt_nll
    const std::size_t end = full.find('\n', at) + 1;
    whole += "{" + full.substr(full.find("\"continuation\"", at), end - full.find("\"continuation\"", at));
    at = end;
  }
  CHECK(score({"--continuation-only"}) == whole);
  CHECK(score({"--continuation-only", "--no-prefix-cache"}) == whole);
}

}  // namespace kvpage_test
