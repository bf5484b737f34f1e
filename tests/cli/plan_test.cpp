/// \file kvpage plan: its total is what a process takes, its answers about what fits hold, and it does not touch weights.
#include "cli/program.hpp"
#include "engine/model/language_model.hpp"
#include "engine/tiny_models.hpp"
#include "support/environment.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace kvpage_test {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kModels{"smollm2", "gemma3", "qwen0.5b"};

Json plan(const std::string& file, std::vector<std::string> arguments = {}, int exit_code = 0) {
  arguments.insert(arguments.begin(), {"plan", file, "--json"});
  const Outcome outcome = run_kvpage(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == exit_code);
  return Json::parse(outcome.out);
}

/// Anonymous memory of a process that fills its context once.
struct Measured {
  std::int64_t end_bytes;   ///< when everything was used and nothing given back, as the process says itself
  std::int64_t peak_bytes;  ///< the most that was seen from outside
};

Measured measure(const std::string& file, const std::string& kv_type, std::int64_t context_tokens) {
  const Outcome outcome = run_kvpage({"bench", "--model", file, "--kv-type", kv_type, "--prompt-tokens", std::to_string(context_tokens - 1),
                                      "--gen", "1", "--threads", "2", "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Measured measured{Json::parse(outcome.out)["own_memory_bytes"].get<std::int64_t>(), outcome.peak_own_bytes};
  CHECK(measured.peak_bytes > measured.end_bytes / 2);  // it was looked at while it ran
  return measured;
}

std::int64_t planned_bytes(const std::string& file, const std::string& kv_type, std::int64_t context_tokens) {
  return plan(file, {"--kv-type", kv_type, "--ctx", std::to_string(context_tokens), "--threads", "2"})["total_bytes"].get<std::int64_t>();
}

void check_total(const std::string& model, const std::string& kv_type, std::int64_t context_tokens) {
  const std::string file = model_path(model);
  const std::int64_t planned = planned_bytes(file, kv_type, context_tokens);
  const Measured measured = measure(file, kv_type, context_tokens);
  const std::int64_t tolerance = planned / 50 + 16'000'000;
  INFO(model << ' ' << kv_type << ' ' << context_tokens << ": planned " << planned << ", in the end " << measured.end_bytes << ", peak "
             << measured.peak_bytes);
  CHECK(std::abs(planned - measured.end_bytes) <= tolerance);
  CHECK(measured.peak_bytes <= planned + tolerance);
}

/// What the same process takes for a longer context is pages and nothing else: the difference is near enough to miss none.
void check_growth(const std::string& model, const std::string& kv_type, std::int64_t context_tokens) {
  constexpr std::int64_t kShort = 512;  // a whole step
  const std::string file = model_path(model);
  const std::int64_t planned = planned_bytes(file, kv_type, context_tokens) - planned_bytes(file, kv_type, kShort);
  const std::int64_t measured = measure(file, kv_type, context_tokens).end_bytes - measure(file, kv_type, kShort).end_bytes;
  const std::int64_t tolerance = planned / 50 + 4'000'000;
  INFO(model << ' ' << kv_type << ' ' << context_tokens << " against " << kShort << ": planned " << planned << ", measured " << measured);
  REQUIRE(planned > 4 * tolerance);
  CHECK(std::abs(planned - measured) <= tolerance);
}

}  // namespace

TEST_CASE("cli.plan.a_longer_context_takes_its_pages_and_no_more", "[cli]") {
  check_growth("smollm2", "f32", 1536);
  check_growth("smollm2", "int8", 2560);
}

TEST_CASE("cli.plan.total_is_what_a_process_takes_for_every_kv_type", "[cli]") {
  for (const std::string& kv_type : kvpage::engine::kv_type_names()) check_total("smollm2", kv_type, 1024);
}

TEST_CASE("cli.plan.total_is_what_a_process_takes_with_windows", "[cli]") { check_total("gemma3", "int4", 1500); }

TEST_CASE("cli.plan.total_is_what_a_process_takes_with_key_biases", "[cli]") { check_total("qwen0.5b", "int8", 256); }

// A small pool: the peak would be that of the load if it held more than a slice of the file.
TEST_CASE("cli.plan.loading_takes_no_more_than_running", "[cli]") {
  for (const std::string& model : kModels) check_total(model, "f16", 16);
}

TEST_CASE("cli.plan.total_is_what_a_process_takes_everywhere", "[cli][night]") {
  for (const std::string& model : kModels) {
    for (const std::string& kv_type : kvpage::engine::kv_type_names()) check_total(model, kv_type, 4096);
  }
}

TEST_CASE("cli.plan.total_is_what_a_process_takes_with_a_large_model", "[cli][night][qwen1.5b]") {
  if (!std::filesystem::exists(model_path("qwen1.5b"))) skip("the model qwen1.5b is not here");
  for (const std::string& kv_type : kvpage::engine::kv_type_names()) check_total("qwen1.5b", kv_type, 2048);
}

TEST_CASE("cli.plan.touches_no_weights", "[cli]") {
  const std::string file = model_path("qwen0.5b");
  const Outcome outcome = run_kvpage({"plan", file});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.peak_own_bytes < static_cast<std::int64_t>(std::filesystem::file_size(file)) / 10);
}

TEST_CASE("cli.plan.parts_sum_up_and_pages_hold_the_context", "[cli]") {
  const Json p = plan(model_path("smollm2"), {"--ctx", "1000", "--seqs", "3", "--kv-type", "int8", "--threads", "5"});
  CHECK(p["context_tokens"] == 1000);
  CHECK(p["num_blocks"] == 3 * 32);
  CHECK(p["page_bytes"] == 32 * 11'880);
  CHECK(p["pool_bytes"] == 3 * 32 * 32 * 11'880);
  CHECK(p["kv_bytes_per_token"] == 11'880);
  CHECK(p["kv_payload_bytes_per_token"] == 2 * 30 * 3 * 64);
  CHECK(p["num_workers"] == 5);
  std::int64_t sum = 5 * p["worker_bytes"].get<std::int64_t>();
  for (const char* part : {"weight_bytes", "pool_bytes", "workspace_bytes", "tokenizer_bytes", "process_bytes"}) {
    sum += p[part].get<std::int64_t>();
  }
  CHECK(p["total_bytes"] == sum);
  // Layers with a window keep no more than it: the pool of a long context grows with the other layers only.
  const Json gemma = plan(model_path("gemma3"), {"--ctx", "32768"});
  CHECK(gemma["kv_payload_bytes_per_token"] == 2 * 18 * 256 * 2);
  CHECK(gemma["pool_bytes"].get<std::int64_t>() < 32768 * gemma["kv_bytes_per_token"].get<std::int64_t>() / 2);
}

TEST_CASE("cli.plan.the_largest_values_fit_and_one_more_does_not", "[cli]") {
  for (const std::string& model : kModels) {
    const std::string file = model_path(model);
    const auto memory_of = [&](const std::string& context, const std::string& seqs) {
      return plan(file, {"--ctx", context, "--seqs", seqs})["total_bytes"].get<std::int64_t>();
    };
    const std::int64_t memory = memory_of("1500", "2") + 1000;
    const Json p = plan(file, {"--ctx", "1500", "--seqs", "2", "--memory", std::to_string(memory)});
    CHECK(p["fits"] == true);
    const auto context = p["largest_context_tokens"].get<std::int64_t>(), seqs = p["largest_num_seqs"].get<std::int64_t>();
    CHECK(context >= 1500);
    CHECK(seqs == 2);
    CHECK(memory_of(std::to_string(context), "2") <= memory);
    CHECK(memory_of(std::to_string(context + 1), "2") > memory);
    CHECK(memory_of("1500", "3") > memory);
    const Json refused = plan(file, {"--ctx", "1500", "--seqs", "3", "--memory", std::to_string(memory)}, 4);
    CHECK(refused["fits"] == false);
    CHECK(refused["largest_num_seqs"] == 2);
  }
}

TEST_CASE("cli.plan.memory_has_units_and_bad_values_are_named", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const std::string file = tiny.path();
  CHECK(plan(file, {"--memory", "4G"})["memory_bytes"] == std::int64_t{4} << 30);
  CHECK(plan(file, {"--memory", "512M"})["memory_bytes"] == 512 << 20);
  const Json none = plan(file, {"--memory", "1K"}, 4);
  CHECK(none["largest_context_tokens"] == 0);
  CHECK(none["largest_num_seqs"] == 0);
  const Outcome text = run_kvpage({"plan", file, "--memory", "4G", "--ctx", "100"});
  for (const char* part : {"weights", "KV pool", "workspace", "workers", "tokenizer", "process", "total", "fits", "--ctx 128"}) {
    INFO(part << "\n" << text.out);
    CHECK(contains(text.out, part));
  }
  const auto check_failure = [&](std::vector<std::string> arguments, int exit_code, const std::vector<std::string>& parts) {
    arguments.insert(arguments.begin(), {"plan", file});
    const Outcome outcome = run_kvpage(arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == exit_code);
    CHECK(outcome.out.empty());
    for (const std::string& part : parts) CHECK(contains(outcome.err, part));
  };
  check_failure({"--memory", "4X"}, 2, {"--memory", "unit"});
  check_failure({"--memory", "-1"}, 2, {"--memory", "range"});
  check_failure({"--memory", "99999999999999999999G"}, 2, {"--memory"});
  check_failure({"--seqs", "0"}, 2, {"--seqs"});
  check_failure({"--kv-type", "f17"}, 2, {"f17", "f16"});
  check_failure({"--ctx", "129"}, 4, {"129", "128"});
}

}  // namespace kvpage_test
