/// \file Replay of recorded requests through the prefix cache, with any eviction policy and pool size, and the best any policy could do.
#pragma once

#include "engine/trace/trace_reader.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// A request and, when its end was recorded, what it answered.
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
};

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

/// One request after the other: match, compute the rest, publish prompt and answer, release. The allocator is the engine's own.
/// Requires: `policy` is one of EvictionChoice::kNames. Errors: ConfigError for sizes that cannot work.
ReplayCounts replay_requests(std::span<const ReplayRequest> requests, const ReplayConfig& config, std::string_view policy);

/// The same with Belady's rule, which looks into the future: whole blocks only. No policy can have more hits as long as no answer
/// repeats what is cached already.
/// Source: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
ReplayCounts replay_with_foresight(std::span<const ReplayRequest> requests, const ReplayConfig& config);

/// Blocks that would hold every different prefix block of the requests, and one more for the unfilled end of a request.
std::int64_t blocks_for_everything(std::span<const ReplayRequest> requests, std::int64_t block_size);

}  // namespace kvpage::engine
