/// \file Many requests at once on real models, in pools that are too small: every mechanism is at work, and no answer changes.
#include "cli/request_runs.hpp"
#include "engine/tiny_models.hpp"
#include "support/environment.hpp"

#include <algorithm>

namespace kvpage_test {
namespace {

/// Requests whose answers no pool, order or batch may change: long ones first, and behind their first step shared starts, forks, a beam,
/// other tenants, and all of them more urgent.
std::string mixed_requests() {
  const auto shared = counting(1000, 70);
  const Json low{{"priority", 5}, {"tenant", 1}};
  const Json drawn{{"n", 3}, {"temperature", 0.8}, {"seed", 7}, {"tenant", 2}, {"arrival_ms", 0.001}};
  return lines_of({request("low 1", joined(shared, counting(30, 9)), 24, low), request("low 2", counting(9000, 90), 24, low),
                   request("low 3", counting(20000, 40), 40, low), request("drawn", joined(shared, counting(90, 12)), 12, drawn),
                   request("beam", counting(300, 20), 8, {{"beam", 3}, {"n", 2}, {"tenant", 2}, {"arrival_ms", 0.001}}),
                   request("again", joined(shared, counting(30, 9)), 24, {{"tenant", 3}, {"arrival_ms", 0.001}}),
                   request("urgent", "The capital of France is", 16, {{"arrival_ms", 0.001}})});
}

/// The totals of a run, whose answers must be those of a roomy one without a prefix cache.
Json totals_of(const std::string& lines, std::vector<std::string> more) {
  static const auto roomy = answers_of(requests_of(model_path("smollm2"), mixed_requests(), {"--no-prefix-cache"}));
  const Json result = requests_of(model_path("smollm2"), lines, std::move(more));
  INFO(result["totals"].dump(1));
  CHECK(answers_of(result) == roomy);
  CHECK(result["totals"]["peak_budget_utilisation"] <= 1);
  CHECK(result["totals"]["peak_used_blocks"] <= result["totals"]["num_blocks"]);
  return result["totals"];
}

}  // namespace

TEST_CASE("cli.batching.small_pools_change_no_answer", "[cli]") {
  // A prompt takes several steps, blocks run out, whoever loses them is computed again.
  const Json recompute = totals_of(mixed_requests(), {"--pool-blocks", "8", "--max-seqs", "4", "--budget-tokens", "40", "--chunk", "24",
                                                      "--admission", "reserve-chunk", "--preempt", "last"});
  INFO(recompute.dump(1));
  for (const char* counter : {"cached_tokens", "forks", "copies", "evictions", "recomputed_tokens"}) {
    INFO(counter);
    CHECK(recompute[counter] > 0);
  }
  CHECK(recompute["preempted"]["recompute"] > 0);
  CHECK(recompute["preempted"]["demote"] == 0);
  CHECK(recompute["peak_budget_utilisation"] == 1);  // of 40 rows: no prompt but one fits into a step

  // With a host tier, what is lost comes back from there.
  const Json demote = totals_of(mixed_requests(), {"--pool-blocks", "7", "--max-seqs", "4", "--budget-tokens", "40", "--admission",
                                                   "reserve-chunk", "--host-tier", "64M", "--order", "fair-share", "--preempt", "last"});
  INFO(demote.dump(1));
  CHECK(demote["preempted"]["demote"] > 0);
  for (const char* counter : {"demoted", "promoted", "evictions"}) {
    INFO(counter);
    CHECK(demote[counter] > 0);
  }
  CHECK(demote["failed_loads"] == 0);

  // Three rows, all taken when the urgent ones come: a long one gives its row and keeps its blocks.
  const Json keep = totals_of(mixed_requests(), {"--max-seqs", "3", "--budget-tokens", "24", "--order", "priority", "--preempt", "last"});
  INFO(keep.dump(1));
  CHECK(keep["preempted"]["keep"] > 0);
}

TEST_CASE("cli.batching.a_shared_prefix_is_read_once_for_all_and_changes_no_answer", "[cli]") {
  // The first one computes the prefix; the others find it, and decode together behind the same pages.
  const auto prefix = counting(1000, 300);
  std::vector<Json> requests{request("first", joined(prefix, counting(30, 4)), 2)};
  for (const kvpage::TokenId start : {5000u, 5100u, 5200u, 5300u}) {
    requests.push_back(request("next " + std::to_string(start), joined(prefix, counting(start, 6)), 12, {{"arrival_ms", 0.001}}));
  }
  const std::string lines = lines_of(requests);
  const Json alone = requests_of(model_path("smollm2"), lines, {"--no-prefix-cache", "--max-seqs", "1"});
  const Json together = requests_of(model_path("smollm2"), lines, {"--max-seqs", "5"});
  CHECK(answers_of(together) == answers_of(alone));
  CHECK(alone["totals"]["cascade_tokens"] == 0);
  CHECK(together["totals"]["cascade_tokens"] >= 3 * 256 * 11);
}

TEST_CASE("cli.batching.static_batches_change_no_answer", "[cli]") {
  const Json padded = totals_of(mixed_requests(), {"--max-seqs", "4", "--batching", "static-padded"});
  CHECK(padded["padded_rows"] > 0);
  CHECK_FALSE(totals_of(mixed_requests(), {"--max-seqs", "4", "--batching", "static"}).contains("padded_rows"));
}

TEST_CASE("cli.batching.windows_release_pages_and_change_no_answer", "[cli]") {
  const std::string model = model_path("gemma3");
  const auto text = counting(2000, 530);
  const std::string lines = lines_of({request("a", text, 8), request("scan", counting(90000, 300), 40),
                                      request("b", joined(text, counting(100, 12)), 8), request("a again", text, 8)});
  const Json roomy = requests_of(model, lines, {"--no-prefix-cache", "--ctx", "2048"});
  const Json small = requests_of(
      model, lines, {"--ctx", "2048", "--max-seqs", "2", "--pool-blocks", "90", "--host-tier", "40M", "--evict", "slru", "--chunk", "100"});
  INFO(small["totals"].dump(1));
  CHECK(small["cache_groups"] == 4);
  CHECK(small["layers_per_page"] == 5);
  CHECK(answers_of(roomy) == answers_of(small));
  for (const char* counter : {"evictions", "demoted", "promoted", "window_released", "cached_tokens"}) {
    INFO(counter);
    CHECK(small["totals"][counter] > 0);
  }
}

TEST_CASE("cli.batching.padding_computes_what_the_textbook_computes", "[cli]") {
  const TinyFile tiny(plain_model());
  const std::string lines = lines_of({request("a", some_ids(20), 4), request("b", some_ids(50, 2), 9), request("c", some_ids(35, 3), 6),
                                      request("next batch", some_ids(9, 4), 3)});
  const Json padded = requests_of(tiny.path(), lines, {"--max-seqs", "3", "--batching", "static-padded", "--budget-tokens", "64"});
  const Json plain = requests_of(tiny.path(), lines, {"--max-seqs", "3", "--batching", "static", "--budget-tokens", "64"});
  const Json continuous = requests_of(tiny.path(), lines, {"--max-seqs", "3", "--budget-tokens", "64"});
  CHECK(answers_of(padded) == answers_of(continuous));
  CHECK(answers_of(plain) == answers_of(continuous));
  CHECK(padded["totals"]["padded_rows"] == 3 * (50 + 9 - 1) - (20 + 3) - (50 + 8) - (35 + 5));
  CHECK(plain["totals"]["steps"] > continuous["totals"]["steps"]);
  CHECK(plain["order"] == "static");
}

TEST_CASE("cli.batching.every_policy_gives_the_same_answers", "[cli]") {
  const TinyFile tiny(plain_model());
  std::vector<Json> all;
  for (std::uint32_t i = 0; i < 9; ++i) {
    all.push_back(request(std::to_string(i), some_ids(10 + 9 * i % 40, i), 5 + i,
                          {{"priority", i % 3}, {"tenant", i % 2}, {"deadline_ms", 1e8 + i}, {"arrival_ms", i % 4}}));
  }
  const std::string lines = lines_of(all);
  const auto wanted = answers_of(requests_of(tiny.path(), lines, {"--max-seqs", "1"}));
  const auto check = [&](const char* option, const char* value) {
    INFO(option << ' ' << value);
    CHECK(answers_of(requests_of(tiny.path(), lines, {option, value, "--max-seqs", "4", "--pool-blocks", "7"})) == wanted);
  };
  for (const char* order : {"fcfs", "priority", "shortest", "longest-prefix", "fair-share", "deadline", "static"}) check("--order", order);
  for (const char* admission : {"learned-growth", "reserve-chunk", "reserve-prompt", "reserve-full"}) check("--admission", admission);
  for (const char* preemption : {"cost", "last"}) check("--preempt", preemption);
}

TEST_CASE("cli.batching.times_and_rates_agree_with_each_other", "[cli]") {
  const TinyFile tiny(plain_model());
  const std::string lines = lines_of({request("a", some_ids(30), 20), request("b", some_ids(20, 2), 10, {{"arrival_ms", 40}}),
                                      request("c", some_ids(10, 3), 1)});
  const Json result = requests_of(tiny.path(), lines, {"--slo-ttft-ms", "1e9", "--steps"});
  const Json& totals = result["totals"];
  INFO(result.dump(1));
  const double wall_s = totals["wall_s"];
  CHECK(wall_s >= 0.04);  // the second request had not arrived before
  CHECK(totals["goodput_unit"] == "requests/s");
  CHECK(totals["goodput"].get<double>() == Approx(3 / wall_s));
  CHECK(totals["output_tokens"] == 31);
  CHECK(totals["output_tokens_per_s"].get<double>() == Approx(31 / wall_s));
  CHECK(totals["positions_computed"].get<int>() + totals["cached_tokens"].get<int>() == 30 + 19 + 20 + 9 + 10);
  std::int64_t rows = 0;
  for (const Json& step : result["steps"]) rows += step[0].get<std::int64_t>();
  CHECK(rows == totals["positions_computed"]);
  CHECK(result["steps"].size() == totals["steps"]);
  double longest = 0;
  for (const Json& one : result["requests"]) {
    CHECK(one["ttft_s"] <= one["end_to_end_s"]);
    longest = std::max(longest, one["end_to_end_s"].get<double>());
  }
  CHECK(totals["end_to_end_s"]["p99"].get<double>() == longest);
  CHECK(result["requests"][2]["time_per_token_s"].is_null());  // one token: there is no time between two
  const auto third = result["requests"][0]["output_ids"][2];
  const Json stopped = requests_of(tiny.path(), lines_of({request("a", some_ids(30), 20, {{"stop_tokens", {third}}})}))["requests"][0];
  const auto further = static_cast<double>(stopped["output_ids"].size());  // the stop token was drawn too
  CHECK(stopped["finish_reason"] == "stop");
  CHECK(stopped["time_per_token_s"].get<double>() * further ==
        Approx(stopped["end_to_end_s"].get<double>() - stopped["ttft_s"].get<double>()));
  const Json missed = requests_of(tiny.path(), lines_of({request("a", some_ids(30), 20)}), {"--slo-tpot-ms", "1e-9"});
  CHECK(missed["totals"]["goodput"] == 0);
}

}  // namespace kvpage_test
