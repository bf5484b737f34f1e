/// \file Options that choose kernels, and what is told of them: --isa, --strict-kernels, --profile, inspect --kernels --isa.
#include "cli/program.hpp"
#include "engine/tiny_models.hpp"
#include "support/isa.hpp"

#include <nlohmann/json.hpp>

namespace kvpage_test {
namespace {

Outcome run_raw(const TinyFile& tiny, std::vector<std::string> more) {
  std::vector<std::string> arguments{"run", "--model", tiny.path(), "--raw", "--prompt", "the ants", "--max-tokens", "6", "--threads", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_kvpage(arguments);
}

}  // namespace

TEST_CASE("cli.isa.gives_equal_text_or_names_what_the_processor_lacks", "[cli]") {
  const TinyFile tiny(quantised_model());
  const Outcome widest = run_raw(tiny, {});
  INFO(widest.err);
  REQUIRE(widest.exit_code == 0);
  for (const kvpage::Isa isa : kvpage::kAllIsas) {
    const Outcome outcome = run_raw(tiny, {"--isa", kvpage::isa_name(isa)});
    INFO(kvpage::isa_name(isa) << ": " << outcome.err);
    if (const char* missing = kvpage::missing_feature(isa, kvpage::detect_cpu_features())) {
      CHECK(outcome.exit_code == 2);
      CHECK(contains(outcome.err, missing));
      CHECK(outcome.out.empty());
    } else {
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.out == widest.out);
    }
  }
  const Outcome unknown = run_raw(tiny, {"--isa", "mmx"});
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, kvpage::isa_name(kvpage::kAllIsas[0])));
}

TEST_CASE("cli.strict_kernels.refuse_a_slow_model_and_no_other", "[cli]") {
  const TinyFile narrow(every_switch());  // heads of 8 dims: half a vector of lanes
  const Outcome slow = run_raw(narrow, {});
  CHECK(slow.exit_code == 0);
  const std::size_t warning = slow.err.find("slow kernels");
  REQUIRE(warning != std::string::npos);
  CHECK(contains(slow.err, " % of the weights run on slow kernels"));
  CHECK(slow.err.find("slow kernels", warning + 1) == std::string::npos);  // once
  const Outcome refused = run_raw(narrow, {"--strict-kernels"});
  INFO(refused.err);
  CHECK(refused.exit_code == 4);
  CHECK(contains(refused.err, "head_dim"));
  CHECK(refused.out.empty());
  const TinyFile fast(quantised_model());
  const Outcome strict = run_raw(fast, {"--strict-kernels"});
  CHECK(strict.exit_code == 0);
  const Outcome quiet = run_raw(fast, {});
  CHECK(strict.out == quiet.out);
  CHECK_FALSE(contains(quiet.err, "slow kernels"));
}

TEST_CASE("cli.profile.shares_sum_to_what_is_listed", "[cli]") {
  const TinyFile tiny(quantised_model());
  const Outcome outcome = run_kvpage({"bench", "--model", tiny.path(), "--json", "--profile", "--threads", "1", "--prompt-tokens", "20",
                                      "--gen", "9"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const auto profile = nlohmann::json::parse(outcome.out)["profile"];
  for (const char* ceiling : {"code_macs_per_s", "float_macs_per_s", "memory_bytes_per_s"}) CHECK(profile["ceilings"][ceiling] > 0);
  CHECK(profile["prefill"]["steps"] == 1);
  CHECK(profile["prefill"]["rows_per_step"] == 20);
  CHECK(profile["decode"]["steps"] == 8);
  CHECK(profile["decode"]["rows_per_step"] == 1);
  for (const char* phase : {"prefill", "decode"}) {
    INFO(phase);
    double sum = 0;
    for (const auto& operation : profile[phase]["operations"]) sum += operation["share_of_step"].get<double>();
    CHECK(sum == Approx(profile[phase]["listed_share"].get<double>()));
    CHECK(sum > 0);
    CHECK(sum <= 1 + 1e-9);
  }
}

TEST_CASE("cli.profile.lists_decode_steps_of_a_batch", "[cli]") {
  const TinyFile tiny(quantised_model());
  const Outcome outcome = run_kvpage({"bench", "--model", tiny.path(), "--json", "--profile", "--threads", "1", "--batch", "3",
                                      "--prompt-tokens", "20", "--gen", "9"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const auto decode = nlohmann::json::parse(outcome.out)["profile"]["decode"];
  CHECK(decode["rows_per_step"] == 3);
  CHECK(decode["steps"] == 9);
  CHECK_FALSE(decode["operations"].empty());
  CHECK(run_kvpage({"bench", "--model", tiny.path(), "--profile", "--mix", "random"}).exit_code == 2);
}

TEST_CASE("cli.inspect.describes_the_kernels_of_any_instruction_set", "[cli]") {
  const TinyFile tiny(quantised_model());
  for (const kvpage::Isa isa : kvpage::kAllIsas) {
    const std::string name = kvpage::isa_name(isa);
    const Outcome outcome = run_kvpage({"inspect", "--kernels", "--isa", name, tiny.path()});
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(contains(outcome.out, " " + name + " "));
    CHECK(contains(outcome.out, "slow operations  0"));
    for (const kvpage::Isa other : kvpage::kAllIsas) {
      if (other != isa) CHECK_FALSE(contains(outcome.out, " " + std::string(kvpage::isa_name(other)) + " "));
    }
  }
}

}  // namespace kvpage_test
