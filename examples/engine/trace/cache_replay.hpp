/// \file Replay of recorded requests through the prefix cache, with any eviction policy and pool size, and the best any policy could do.
#pragma once

#include "engine/trace/trace_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// A request and, when its end was recorded, what it answered (its first answer, if it asked for several).
struct ReplayRequest {
  TraceRequest request;
  std::vector<TokenId> output_ids;

  [[nodiscard]] std::int64_t num_prompt_tokens() const noexcept { return static_cast<std::int64_t>(request.prompt_ids.size()); }
  [[nodiscard]] std::int64_t num_tokens() const noexcept { return num_prompt_tokens() + static_cast<std::int64_t>(output_ids.size()); }
};

/// The requests of a trace in order of submission. Errors: TraceReader's, an id that was submitted twice, a finish without a submit.
Expected<std::vector<ReplayRequest>, TraceError> read_requests(TraceReader& reader);

struct ReplayConfig {
  std::int64_t num_blocks = 0;
  std::int64_t block_size = 16;
  bool partial_hits = false;  ///< also count and copy a common start of a block, as an engine does
  std::vector<std::int64_t> window_tokens{};  ///< per cache group: 0 = full attention; empty = one group of full attention
  std::int64_t step_tokens = 512;             ///< most prompt tokens that one step computes; counts with windows only

  [[nodiscard]] std::int64_t num_groups() const noexcept { return window_tokens.empty() ? 1 : std::ssize(window_tokens); }
  [[nodiscard]] bool has_window() const noexcept {
    return std::any_of(window_tokens.begin(), window_tokens.end(), [](std::int64_t window) { return window > 0; });
  }
  [[nodiscard]] bool one_full_group() const noexcept { return num_groups() == 1 && !has_window(); }
};

/// Blocks that prompt and answer hold at most at one time, over all groups, computed in steps as small as needed.
std::int64_t blocks_for(const ReplayRequest& request, const ReplayConfig& config);

/// What a replay counted. A request that needs more blocks than the pool has is left out.
struct ReplayCounts {
  std::int64_t num_requests = 0;
  std::int64_t num_left_out = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< of these, tokens that need not be computed
  std::int64_t prompt_blocks = 0;  ///< full blocks of the prompts
  std::int64_t hit_blocks = 0;     ///< of these, found in the cache
  std::int64_t evictions = 0;

  [[nodiscard]] double token_hit_rate() const noexcept { return ratio(cached_tokens, prompt_tokens); }
  [[nodiscard]] double block_hit_rate() const noexcept { return ratio(hit_blocks, prompt_blocks); }

 private:
  static double ratio(std::int64_t part, std::int64_t whole) noexcept {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

/// One request after the other: match, compute the rest, publish prompt and answer, release. The allocator is the engine's own. With
/// windows it computes step by step and gives back the blocks behind them in between, as the engine does.
/// Requires: `policy` is one of EvictionChoice::kNames. Errors: ConfigError for sizes that cannot work.
ReplayCounts replay_requests(std::span<const ReplayRequest> requests, const ReplayConfig& config, std::string_view policy);

/// The same with Belady's rule, which looks into the future: whole blocks only. No policy can have more hits as long as no answer
/// repeats what is cached already. Requires: config.one_full_group(): a hit behind windows needs only the newest blocks, and each
/// group has blocks of its own, which Belady's rule does not weigh.
/// Source: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
ReplayCounts replay_with_foresight(std::span<const ReplayRequest> requests, const ReplayConfig& config);

/// Blocks of one group that would hold every different prefix block of the requests, and one more for the unfilled end of a request.
std::int64_t blocks_for_everything(std::span<const ReplayRequest> requests, std::int64_t block_size);

}  // namespace kvpage::engine
