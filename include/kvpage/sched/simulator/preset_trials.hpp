/// \file PresetTrial: each preset against the default limits and policies, on requests of its situation and on two machines.
#pragma once

#include <kvpage/sched/presets.hpp>
#include <kvpage/sched/any_policies.hpp>
#include <kvpage/sched/simulator/situation_loads.hpp>

#include <string_view>

KVPAGE_BEGIN_NAMESPACE

/// What a trial compares, all in the report of a load; smaller is better.
enum class TrialMeasure : std::uint8_t {
  kMeanTtft,     ///< mean time to the first token
  kLongestPause,  ///< the longest pause inside an answer that 99 % do not exceed
};

/// One comparison.
struct PresetTrial {
  const char* preset = "";
  const char* machine = "";
  TrialMeasure measure{};
  StepTime step_ns{};
  std::int64_t pool_tokens = 0;
  std::vector<LoadRequest> load{};
};

struct TrialResult {
  LoadReport defaults{};
  LoadReport preset{};
};

[[nodiscard]] inline double measure(TrialMeasure what, const LoadReport& report) {
  if (what == TrialMeasure::kMeanTtft) return report.mean([](const LoadAnswer& a) { return a.ttft_ns(); });
  return report.quantile(0.99, [](const LoadAnswer& a) { return a.longest_gap_ns; });
}

/// The trials of the four presets, with about `scale` times 100 requests each. Both machines are busy, but keep up.
[[nodiscard]] inline std::vector<PresetTrial> preset_trials(std::uint64_t seed, std::size_t scale) {
  using enum TrialMeasure;
  std::vector<PresetTrial> trials;
  const auto add = [&](const char* preset, TrialMeasure what, bool gpu, std::int64_t pool_tokens, std::vector<LoadRequest> load) {
    trials.push_back({preset, gpu ? "GPU-like" : "CPU-like", what, gpu ? kGpuLikeStep : kCpuLikeStep, pool_tokens, std::move(load)});
  };
  constexpr double kMs = 1e6;
  add("long-text", kLongestPause, true, 131'072, SituationLoads{seed}.long_text(40 * scale, 1500 * kMs));
  add("long-text", kLongestPause, false, 131'072, SituationLoads{seed}.long_text(20 * scale, 60'000 * kMs));
  add("many-chats", kMeanTtft, true, 65'536, SituationLoads{seed}.chats(100 * scale, 12 * kMs));
  add("many-chats", kLongestPause, false, 20'480, SituationLoads{seed}.chats(50 * scale, 800 * kMs));
  add("code", kMeanTtft, true, 16'384, SituationLoads{seed}.code(125 * scale, 12 * kMs));
  add("code", kMeanTtft, false, 16'384, SituationLoads{seed}.code(50 * scale, 1000 * kMs));
  add("edge", kLongestPause, true, 2048, SituationLoads{seed}.edge(50 * scale, 100 * kMs));
  add("edge", kLongestPause, false, 2048, SituationLoads{seed}.edge(50 * scale, 700 * kMs));
  return trials;
}

/// Both runs of a trial with equal pools. World: made of (BlockAllocatorConfig, SchedulerConfig, policies), see simulate_load;
/// its policies are the run-time ones, for which one scheduler is compiled.
template <class World, class Policies>
[[nodiscard]] TrialResult run_preset_trial(const PresetTrial& trial) {
  const auto run = [&](std::int64_t block_size, SchedulerConfig config, const Policies& policies) {
    config.max_waiting = std::max<std::int64_t>(config.max_waiting, std::ssize(trial.load));  // none is refused
    const BlockAllocatorConfig pool{.num_blocks = trial.pool_tokens / block_size, .block_size = block_size, .max_seqs = config.max_seqs};
    World world{pool, config, policies};
    return simulate_load(world, trial.load, trial.step_ns);
  };
  TrialResult result;
  const Policies defaults{AnyOrder{Fcfs{}}, AnyAdmission{LearnedGrowth{}}, {}};
  result.defaults = run(BlockAllocatorConfig{}.block_size, SchedulerConfig{}, defaults);
  for_each_scheduler_preset([&](const auto& preset) {
    if (std::string_view{preset.name} != trial.preset) return;
    result.preset = run(preset.block_size, preset.config, {AnyOrder{preset.policies.order}, AnyAdmission{preset.policies.admission}, {}});
  });
  return result;
}

KVPAGE_END_NAMESPACE
