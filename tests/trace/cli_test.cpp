/// \file The verbs replay and generate as programs: what they print, refuse and need.
#include "cli/program.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>

using namespace kvpage_test;

TEST_CASE("trace.cli.generated_traces_are_replayed", "[trace]") {
  const TempDir dir;
  const std::string trace = dir / "scan.jsonl";
  REQUIRE(run_kvpage({"trace", "generate", "scan", "--seed", "7", "--requests", "120", "-o", trace}).exit_code == 0);
  CHECK(run_kvpage({"trace", "generate", "scan", "--seed", "7", "--requests", "120"}).out == read_text(trace));
  const Outcome outcome = run_kvpage({"trace", "replay", trace, "--pool-blocks", "700,900", "--policies", "lru,arc", "--json"});
  REQUIRE(outcome.exit_code == 0);
  const auto results = nlohmann::json::parse(outcome.out).at("results");
  REQUIRE(results.size() == 6);  // two pools; lru, arc and the best possible
  CHECK(results[1].at("policy") == "arc");
  CHECK(results[1].at("token_hit_rate").get<double>() > 3 * results[0].at("token_hit_rate").get<double>());
  CHECK(contains(run_kvpage({"trace", "replay", trace}).out, "cost-aware"));
  const auto fails = [&](const std::vector<std::string>& arguments, int exit_code, const std::string& part) {
    const Outcome failed = run_kvpage(arguments);
    INFO(failed.err);
    CHECK(failed.exit_code == exit_code);
    CHECK(contains(failed.err, part));
  };
  fails({"trace", "replay", trace, "--policies", "mru"}, 2, "mru");
  fails({"trace", "replay", trace, "--block-size", "24"}, 2, "power of two");
  fails({"trace", "replay", trace, "--pool-blocks", "2"}, 4, "2 blocks");
  fails({"trace", "generate", "waltz"}, 2, "waltz");
  const std::string text = read_text(trace);
  write_text(trace, text.substr(0, text.find('\n') + 1) + text.substr(text.find('\n') + 1, 900));
  fails({"trace", "replay", trace}, 3, "no request");
  write_text(trace, text + "{\"kind\":\"submit\",\"id\":\"a\"}\n");
  fails({"trace", "replay", trace}, 3, "scan.jsonl:242: the field \"prompt_ids\" is missing");
  write_text(trace, text + "{\"kind\":\"finish\",\"id\":\"a\"}\n");
  fails({"trace", "replay", trace}, 3, "never submitted");
}

TEST_CASE("trace.cli.replay_takes_the_cache_groups_from_the_header", "[trace]") {
  const TempDir dir;
  const std::string trace = dir / "chat.jsonl";
  REQUIRE(run_kvpage({"trace", "generate", "chat", "--requests", "40", "-o", trace}).exit_code == 0);
  const auto replay = [&](const std::string& config) {
    const std::string text = read_text(trace), header = R"({"kind":"header","version":1,"config":)" + config + "}";
    write_text(trace, header + text.substr(text.find('\n')));
    const Outcome outcome = run_kvpage({"trace", "replay", trace, "--policies", "lru", "--json"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return nlohmann::json::parse(outcome.out);
  };
  const auto one = replay(R"({"num_blocks":60,"block_size":16,"groups":[{"window_tokens":0}]})");
  const auto two = replay(R"({"num_blocks":60,"block_size":16,"groups":[{"window_tokens":0},{"window_tokens":512}]})");
  CHECK(one.at("results").size() == 2);  // the best possible too
  CHECK(two.at("results").size() == 1);
  CHECK(two.at("window_tokens") == std::vector<int>{0, 512});
  CHECK(two.at("blocks_for_everything") == 2 * one.at("blocks_for_everything").get<int>());
  CHECK(two.at("results")[0].at("left_out") > one.at("results")[0].at("left_out"));
  CHECK(contains(run_kvpage({"trace", "replay", trace}).out, "in each of 2 cache groups (full attention, window of 512)"));
}

TEST_CASE("trace.cli.generate_holds_one_request_at_a_time", "[trace]") {
  const auto peak_own_bytes = [](const std::string& num_requests) {
    const Outcome outcome = run_kvpage({"trace", "generate", "scan", "--requests", num_requests, "-o", "/dev/null"});
    REQUIRE(outcome.exit_code == 0);
    return outcome.peak_own_bytes;
  };
  CHECK(peak_own_bytes("6000") < peak_own_bytes("100") + (std::int64_t{8} << 20));  // they have 10 million tokens
  const Outcome full = run_kvpage({"trace", "generate", "scan", "--requests", "10000000", "-o", "/dev/full"});
  CHECK(full.exit_code == 1);
  CHECK(contains(full.err, "/dev/full"));
}

TEST_CASE("trace.cli.memory_that_runs_out_gives_advice_that_fits", "[trace]") {
  const TempDir dir;
  const std::string kvpage = "ulimit -v 600000; exec " KVPAGE_PROGRAM " ", quiet = " >/dev/null 2>" + (dir / "err").string();
  if (std::system((kvpage + "--version" + quiet).c_str()) != 0) skip("this build needs more address space than the test leaves");
  const std::string trace = dir / "run.jsonl";
  write_text(trace, R"({"kind":"header","version":1,"config":{"num_blocks":16777216,"block_size":16}})" "\n"
                    R"({"kind":"submit","id":"a","prompt_ids":[1]})" "\n");
  const auto fails = [&](const std::string& arguments, const std::string& part) {
    const int status = std::system((kvpage + arguments + quiet).c_str());
    const std::string err = read_text(dir / "err");
    INFO(err);
    CHECK(WEXITSTATUS(status) == 4);
    CHECK(contains(err, part));
    CHECK_FALSE(contains(err, "--ctx"));
  };
  fails("trace page " + trace + " -o " + (dir / "run.html").string(), "--every");
  fails("trace replay " + trace, "--pool-blocks");
}
