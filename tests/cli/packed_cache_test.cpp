/// \file --packed-cache: the same answers, in the memory that was planned, and notes instead of failures.
#include "cli/program.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace kvpage_test {
namespace {

std::vector<std::string> with_cache(std::vector<std::string> arguments, const std::filesystem::path& folder) {
  arguments.insert(arguments.end(), {"--packed-cache", folder.string()});
  return arguments;
}

std::int64_t planned_bytes(const std::string& file) {
  const Outcome plan = run_kvpage({"plan", file, "--ctx", "64", "--threads", "2", "--json"});
  REQUIRE(plan.exit_code == 0);
  return nlohmann::json::parse(plan.out)["total_bytes"].get<std::int64_t>();
}

}  // namespace

TEST_CASE("cli.packed_cache.starts_give_the_same_answers_in_the_planned_memory", "[cli]") {
  const TempDir dir;
  const std::string file = model_path("smollm2");
  const std::vector<std::string> run{"run", "--model", file, "--raw", "--prompt", "The sea is", "-n", "12", "--ctx", "64"};
  const Outcome packed = run_kvpage(run);
  REQUIRE(packed.exit_code == 0);
  const std::int64_t planned = planned_bytes(file), tolerance = planned / 50 + 16'000'000;
  const std::vector<std::string> bench{"bench", "--model", file, "--prompt-tokens", "63", "--gen", "1", "--threads", "2", "--json"};
  for (const char* start : {"first", "second"}) {
    const Outcome outcome = run_kvpage(with_cache(run, dir / "cache"));
    INFO(start << ' ' << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out == packed.out);
    CHECK_FALSE(contains(outcome.err, "note:"));
    CHECK(outcome.peak_own_bytes <= planned + tolerance);
    const Outcome timed = run_kvpage(with_cache(bench, dir / "cache of bench"));
    REQUIRE(timed.exit_code == 0);
    CHECK(std::abs(planned - nlohmann::json::parse(timed.out)["own_memory_bytes"].get<std::int64_t>()) <= tolerance);
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir / "cache")) {
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
  }
  const Outcome repaired = run_kvpage(with_cache(run, dir / "cache"));
  CHECK(repaired.out == packed.out);
  CHECK(contains(repaired.err, "note: packed cache"));
  CHECK(contains(repaired.err, "packing the weights again"));
  CHECK_FALSE(contains(run_kvpage(with_cache(run, dir / "cache")).err, "note:"));
}

TEST_CASE("cli.packed_cache.a_folder_that_cannot_be_made_is_a_note", "[cli]") {
  const TempDir dir;
  write_text(dir / "file", "");
  const std::string file = model_path("smollm2");
  const std::vector<std::string> run{"run", "--model", file, "--raw", "--prompt", "The sea is", "-n", "2", "--ctx", "64"};
  const Outcome outcome = run_kvpage(with_cache(run, dir / "file" / "cache"));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == run_kvpage(run).out);
  CHECK(contains(outcome.err, "note: packed cache"));
  const Outcome nameless = run_kvpage({"run", "--model", file, "--packed-cache", ""});
  CHECK(nameless.exit_code == 2);
  CHECK(contains(nameless.err, "--packed-cache"));
}

}  // namespace kvpage_test
