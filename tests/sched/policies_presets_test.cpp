// The presets gain what they say, and the simulated loads that say so are what they should be.
#include "sched/policies_fixture.hpp"

#include <kvpage/sched/simulator/preset_trials.hpp>

using namespace kvpage;
using namespace kvpage_test;

TEST_CASE("sched.policies.preset.gains_in_its_situation", "[sched]") {
  // Below the smallest of three seeds; docs/scheduling.md has the measured ones.
  const std::map<std::string, double> kLeastGain{{"long-text GPU-like", 3},    {"long-text CPU-like", 3.3}, {"many-chats GPU-like", 5},
                                                 {"many-chats CPU-like", 1.6}, {"code GPU-like", 6},        {"code CPU-like", 1.7},
                                                 {"edge GPU-like", 1.6},       {"edge CPU-like", 6}};
  for (const PresetTrial& trial : preset_trials(1, 4)) {
    const TrialResult result = run_preset_trial<SchedFixture, Policies>(trial);
    const std::string name = std::string{trial.preset} + " " + trial.machine;
    const double gain = measure(trial.measure, result.defaults) / measure(trial.measure, result.preset);
    INFO(name << " gains " << gain);
    CHECK(gain >= kLeastGain.at(name));
    CHECK(result.preset.tokens_per_s() > 0.95 * result.defaults.tokens_per_s());  // and nothing is paid in throughput
    CHECK(result.preset.num_refused + result.defaults.num_refused == 0);
  }
}

TEST_CASE("sched.policies.preset.values_are_valid_and_named_once", "[sched]") {
  std::set<std::string> names;
  for_each_scheduler_preset([&](const auto& preset) {
    INFO(preset.name);
    CHECK(names.insert(preset.name).second);
    preset.config.check();
    const BlockAllocatorConfig pool{
        .num_blocks = preset.pool_tokens / preset.block_size, .block_size = preset.block_size, .max_seqs = preset.config.max_seqs};
    CHECK(pool.with_defaults().max_blocks_per_seq > 0);  // throws ConfigError for what cannot work
    CHECK(preset.pool_tokens >= 256 * preset.config.max_seqs);  // its rows can be filled with requests of some length
  });
  CHECK(names.size() == 4);
}

TEST_CASE("sched.policies.preset.values_are_those_of_the_table", "[sched]") {
  const auto is = [](const auto& preset, std::int64_t budget, std::int64_t seqs, std::int64_t block, std::int64_t pool) {
    return preset.config.budget_tokens == budget && preset.config.max_seqs == seqs && preset.block_size == block &&
           preset.pool_tokens == pool;
  };
  CHECK(is(kLongTextPreset, 512, 16, 32, 131'072));
  CHECK(kLongTextPreset.config.max_chunk_tokens == 256);
  CHECK(is(kManyChatsPreset, 512, 256, 16, 65'536));
  CHECK(kManyChatsPreset.policies.admission.first_ratio == 0.2);
  CHECK(is(kCodePreset, 512, 32, 16, 16'384));
  CHECK(kCodePreset.policies.admission.first_ratio == 0.2);
  CHECK(is(kEdgePreset, 64, 8, 16, 2048));
  CHECK(kEdgePreset.config.max_waiting == 64);
  CHECK(is(SchedulerPreset<SchedulerPolicies<>>{}, 2048, 128, 16, 0));  // the defaults that they were measured against
}

TEST_CASE("sched.policies.load.times_are_those_of_the_steps", "[sched]") {
  SchedFixture f{{.num_blocks = 64, .block_size = 4, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 4}};
  std::vector<LoadRequest> load(3);
  load[0] = {.prompt = tokens_from(0, 4), .new_tokens = 3, .max_new_tokens = 10, .arrival_ns = 100};
  load[1] = {.prompt = tokens_from(50, 6), .new_tokens = 1, .arrival_ns = 105};                  // comes while a step runs
  load[2] = {.prompt = tokens_from(20, 2), .new_tokens = 2, .arrival_ns = 1000, .after = 0};     // a second turn
  const LoadReport report = simulate_load(f, load, StepTime{.fixed_ns = 10, .row_ns = 1});
  CHECK(report.answers[0].first_token_ns == 114);             // 10 + 4 rows
  CHECK(report.answers[1].first_token_ns == 114 + 17);        // 10 + 6 rows + the other's
  CHECK(report.answers[0].longest_gap_ns == 17);
  CHECK(report.answers[0].last_token_ns == 114 + 17 + 11);
  CHECK(report.answers[2].arrival_ns == 142 + 1000);
  CHECK(report.answers[2].ttft_ns() == 12);
  CHECK(report.end_ns == 1142 + 12 + 11);
  CHECK(report.stats.sampled_tokens == 6);
  CHECK(report.quantile(0.5, [](const LoadAnswer& a) { return a.num_tokens; }) == 2);
  const StepTime gpu{.floor_ns = 100, .row_ns = 1, .kv_token_ns = 2};
  BatchPlan batch;
  batch.tokens.resize(30), batch.kv_lens = {5, 7};
  CHECK(gpu(batch) == 124);
  batch.tokens.resize(130);
  CHECK(gpu(batch) == 154);
}
