/// \file SimConfig: one simulated world, drawn from a seed: sizes, policies, features and faults.
#pragma once

#include <kvpage/cache/block_allocator_config.hpp>
#include <kvpage/sched/scheduler_config.hpp>
#include <kvpage/sched/scheduler_env.hpp>
#include <kvpage/sched/simulator/sim_random.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE

/// What a seed turns on. Each is on in half of the seeds.
struct SimFeatures {
  bool shared_prefixes = false, forks = false, beams = false, stops = false, priorities = false, tenants = false, deadlines = false;
  bool windows = false, namespaces = false, tiny_pool = false;
  bool cancels = false, preemptions = false, flips = false, resets = false, pins = false, clock_jumps = false, refusals = false;
  bool drops = false, aborts = false, exceptions = false, lost_results = false, late_results = false, bad_rows = false;
  bool tier = false, transfer_faults = false, tier_resets = false;
  bool caller_stops = false;  ///< the caller's own rule ends answers
};

/// Answers at random, see HostileOrder; no seed draws it.
inline constexpr std::size_t kHostileOrder = 1000;

/// One world. Equal configs and actions give equal runs, bit for bit.
struct SimConfig {
  std::uint64_t seed = 0;
  BlockAllocatorConfig pool{};
  SchedulerConfig limits{};
  SimFeatures features{};
  std::size_t order = 0;  ///< kHostileOrder, or AnyOrder::of
  std::size_t admission = 0;
  bool preempt_by_cost = true;
  std::int64_t max_prompt = 40;
  std::int64_t max_new = 16;
  std::int64_t min_sealed_steps = 200;
  std::int64_t tier_slots = 0;  ///< pages of the host tier
  StepCosts costs{};
};

namespace detail {
inline void draw_features(SimRandom& random, SimFeatures& f) {
  bool* const all[] = {&f.shared_prefixes, &f.forks, &f.beams, &f.stops, &f.priorities, &f.tenants, &f.deadlines, &f.windows,
                       &f.namespaces, &f.tiny_pool, &f.cancels, &f.preemptions, &f.flips, &f.resets, &f.pins, &f.clock_jumps,
                       &f.refusals, &f.drops, &f.aborts, &f.exceptions, &f.lost_results, &f.late_results, &f.bad_rows};
  for (bool* feature : all) *feature = random.one_in(2);
}

/// Some tiers are smaller than a prompt, some hold everything; copies are cheap, or cheap only for long starts, or dear.
inline void draw_tier(SimRandom&& random, SimConfig& config) {
  SimFeatures& f = config.features;
  f.tier = random.one_in(2), f.transfer_faults = f.tier && random.one_in(2), f.tier_resets = f.tier && random.one_in(2);
  if (!f.tier) return;
  f.shared_prefixes = true;  // of more prompts than the pool holds
  const std::int64_t largest = ceil_div(config.max_prompt + config.max_new, config.pool.block_size) * config.pool.num_groups;
  config.pool.num_blocks = std::min(config.pool.num_blocks, largest + random.in(0, largest));
  config.tier_slots = random.one_in(3) ? random.in(1, 8) : random.in(8, 256);
  constexpr std::int64_t kCopyNs[] = {1'000, 1'000, 1'000, 60'000, 300'000};
  config.costs.copy_ns_per_block = kCopyNs[random.in(0, 4)];
}
}  // namespace detail

/// The world of a seed.
[[nodiscard]] inline SimConfig draw_sim_config(std::uint64_t seed) {
  SimRandom random{seed, 1};
  SimConfig config{.seed = seed};
  detail::draw_features(random, config.features);
  config.max_prompt = random.in(4, 40);
  config.max_new = random.in(1, 20);
  BlockAllocatorConfig& pool = config.pool;
  pool.block_size = std::int64_t{1} << random.in(0, 3);
  if (config.features.windows) {
    pool.num_groups = random.in(1, 2);
    pool.window_tokens[static_cast<std::size_t>(pool.num_groups - 1)] = random.in(2, 24);
  }
  const std::int64_t largest = ceil_div(config.max_prompt + config.max_new, pool.block_size) * pool.num_groups;
  pool.num_blocks = config.features.tiny_pool ? largest + 1 : largest * random.in(1, 4) + random.in(0, 16);
  if (config.features.tiny_pool && random.one_in(3)) {  // some prompts never fit, some answers fill the pool
    pool.num_blocks = std::max(pool.num_groups, largest * random.in(2, 4) / 5);
  }
  SchedulerConfig& limits = config.limits;
  limits.max_seqs = random.in(1, 6);
  pool.max_seqs = limits.max_seqs + random.in(0, 6);
  config.order = static_cast<std::size_t>(random.in(0, 6));
  if (config.features.priorities && random.one_in(2)) {  // a world where urgent requests take rows
    config.order = 1;
    limits.max_seqs = random.in(1, 3);
    pool.max_seqs = limits.max_seqs + random.in(1, 6);
  }
  limits.chunk_align = random.one_in(3) ? random.in(2, 8) : 1;
  limits.budget_tokens = limits.max_seqs + limits.chunk_align + random.in(0, 40);
  if (random.one_in(2)) limits.max_chunk_tokens = limits.chunk_align + random.in(0, 12);
  if (random.one_in(4)) limits.context_limit = random.in(8, config.max_prompt + config.max_new + 8);
  limits.max_waiting = random.in(2, 12);
  limits.starve_after_ns = random.one_in(2) ? random.in(1, 200) * 1'000'000 : limits.starve_after_ns;
  limits.max_bypasses = random.in(0, 6);
  limits.max_examined = random.in(1, 8);
  limits.shield_after = random.in(1, 4);
  config.admission = static_cast<std::size_t>(random.in(0, 3));
  config.preempt_by_cost = random.one_in(2);
  detail::draw_tier(SimRandom{seed, 3}, config);
  limits.reject_infeasible = SimRandom{seed, 4}.one_in(2);
  config.features.caller_stops = SimRandom{seed, 5}.one_in(2);
  config.costs.decode_ns_per_token = 2'000'000;
  return config;
}

KVPAGE_END_NAMESPACE
