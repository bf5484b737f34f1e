#include "engine/policies/eviction_choice.hpp"
#include "engine/trace/cache_replay.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/rates.hpp"
#include "tools/kvpage/trace.hpp"
#include "tools/kvpage/trace_io.hpp"

#include <kvpage/base/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

namespace kvpage::cli {
namespace {

using engine::ReplayCounts;

constexpr const char* kForesight = "best possible";

/// One pool size: a row of counts per policy, the best possible last.
struct PoolResult {
  std::int64_t num_blocks = 0;
  std::vector<std::pair<std::string, ReplayCounts>> rows;
};

PoolResult replay_pool(const std::vector<engine::ReplayRequest>& requests, const engine::ReplayConfig& config,
                       const std::vector<std::string>& policies) {
  PoolResult result{config.num_blocks, {}};
  for (const std::string& policy : policies) result.rows.emplace_back(policy, engine::replay_requests(requests, config, policy));
  if (!config.partial_hits && config.one_full_group()) {
    result.rows.emplace_back(kForesight, engine::replay_with_foresight(requests, config));
  }
  return result;
}

/// 2, 4 and 8 times the largest request, and what would hold everything.
std::vector<std::int64_t> default_pools(const std::vector<engine::ReplayRequest>& requests, const engine::ReplayConfig& config,
                                        std::int64_t everything) {
  std::int64_t largest = 0;
  for (const engine::ReplayRequest& r : requests) largest = std::max(largest, engine::blocks_for(r, config));
  std::vector<std::int64_t> pools;
  for (const std::int64_t times : {2, 4, 8}) {
    if (times * largest < everything) pools.push_back(times * largest);
  }
  pools.push_back(everything);
  return pools;
}

/// Of a trace whose prompts are shorter than a block there is no rate of blocks.
std::string percent_text(std::optional<double> part) {
  return part ? figure_text("%10.2f %%", 12, 100 * *part) : figure_text("", 12, {});
}

void print_text(const PoolResult& pool, std::int64_t everything) {
  std::printf("\npool of %lld blocks (%lld would hold everything)\n", static_cast<long long>(pool.num_blocks),
              static_cast<long long>(everything));
  std::printf("  %-14s %12s %12s %12s\n", "policy", "token hits", "block hits", "evictions");
  for (const auto& [name, c] : pool.rows) {
    std::printf("  %-14s %s %s %12lld\n", name.c_str(), percent_text(share(c.cached_tokens, c.prompt_tokens)).c_str(),
                percent_text(share(c.hit_blocks, c.prompt_blocks)).c_str(), static_cast<long long>(c.evictions));
  }
  const ReplayCounts& any = pool.rows.front().second;
  if (any.num_left_out > 0) {
    std::printf("  %lld of %lld requests need more blocks than this pool has and were left out\n",
                static_cast<long long>(any.num_left_out), static_cast<long long>(any.num_left_out + any.num_requests));
  }
}

/// What cache groups cost, unless there is one of full attention.
std::string to_text(const std::vector<std::int64_t>& window_tokens) {
  std::string groups;
  for (const std::int64_t window : window_tokens) {
    (groups += groups.empty() ? "" : ", ") += window == 0 ? "full attention" : "window of " + std::to_string(window);
  }
  if (groups.empty() || groups == "full attention") return "";
  return " in each of " + std::to_string(window_tokens.size()) + " cache groups (" + groups + ")";
}

nlohmann::ordered_json to_json(const std::vector<PoolResult>& pools) {
  nlohmann::ordered_json results = nlohmann::json::array();
  for (const PoolResult& pool : pools) {
    for (const auto& [name, c] : pool.rows) {
      results.push_back({{"pool_blocks", pool.num_blocks},
                         {"policy", name},
                         {"token_hit_rate", or_null<nlohmann::json>(share(c.cached_tokens, c.prompt_tokens))},
                         {"block_hit_rate", or_null<nlohmann::json>(share(c.hit_blocks, c.prompt_blocks))},
                         {"prompt_tokens", c.prompt_tokens},
                         {"cached_tokens", c.cached_tokens},
                         {"prompt_blocks", c.prompt_blocks},
                         {"hit_blocks", c.hit_blocks},
                         {"evictions", c.evictions},
                         {"requests", c.num_requests},
                         {"left_out", c.num_left_out}});
    }
  }
  return results;
}

}  // namespace

int trace_replay(const TraceReplayOptions& options) {
  auto reader = open_trace(options.file);
  const auto requests = engine::read_requests(reader);
  if (!requests) throw Failure(kExitLoad, requests.error().message);
  if (requests->empty()) throw Failure(kExitLoad, options.file + ": the trace holds no request (no line of kind \"submit\")");
  warn_if_cut_short(reader, options.file);
  const engine::TraceHeader& header = reader.header();
  engine::ReplayConfig config;
  config.block_size = options.block_size > 0 ? options.block_size : header.block_size > 0 ? header.block_size : 16;
  config.partial_hits = options.partial_hits;
  config.window_tokens = header.window_tokens;
  const std::int64_t everything = config.num_groups() * engine::blocks_for_everything(*requests, config.block_size);
  std::vector<std::int64_t> pools = options.pool_blocks;
  if (pools.empty() && header.num_blocks > 0) pools = {header.num_blocks};
  if (pools.empty()) pools = default_pools(*requests, config, everything);
  std::vector<std::string> policies = options.policies;
  if (policies.empty()) policies.assign(engine::EvictionChoice::kNames.begin(), engine::EvictionChoice::kNames.end());

  std::vector<PoolResult> results;
  for (const std::int64_t num_blocks : pools) {
    config.num_blocks = num_blocks;
    results.push_back(replay_pool(*requests, config, policies));
    if (results.back().rows.front().second.num_requests > 0) continue;
    throw Failure(kExitDoesNotFit, "no request fits a pool of " + std::to_string(num_blocks) + " blocks of " +
                                       std::to_string(config.block_size) + " tokens; try a larger --pool-blocks");
  }
  if (options.json) {
    const nlohmann::ordered_json line{{"trace", options.file},
                                      {"requests", requests->size()},
                                      {"block_size", config.block_size},
                                      {"window_tokens", config.window_tokens},
                                      {"blocks_for_everything", everything},
                                      {"partial_hits", config.partial_hits},
                                      {"results", to_json(results)}};
    std::printf("%s\n", line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
    return kExitOk;
  }
  std::printf("%s: %zu requests, blocks of %lld tokens%s\n", options.file.c_str(), requests->size(),
              static_cast<long long>(config.block_size), to_text(config.window_tokens).c_str());
  for (const PoolResult& pool : results) print_text(pool, everything);
  return kExitOk;
}

}  // namespace kvpage::cli
