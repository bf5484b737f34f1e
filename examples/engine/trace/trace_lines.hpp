/// \file What the lines of a recorded trace say: its header, requests and their ends, planned steps. docs/traces.md describes the format.
#pragma once

#include <kvpage/cache/block_allocator_config.hpp>
#include <kvpage/cache/block_ids.hpp>
#include <kvpage/sched/request.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// Version of the format that this program writes, and the newest that it reads.
inline constexpr std::int64_t kTraceVersion = 1;
/// Largest pool that is read or replayed: a reader keeps some hundred bytes per block.
inline constexpr std::int64_t kMaxTraceBlocks = std::int64_t{1} << 24;

/// First line of a trace: what its numbers refer to. A value of 0 or "" is not known.
struct TraceHeader {
  std::uint64_t seed = 0;
  std::string commit{};
  std::int64_t num_blocks = 0;
  std::int64_t block_size = 0;
  std::vector<std::int64_t> window_tokens{};  ///< per cache group: 0 = full attention
  std::int64_t page_bytes = 0;
  std::string policy{};  ///< name of the eviction policy

  [[nodiscard]] static TraceHeader of(const BlockAllocatorConfig& config) {
    TraceHeader header;
    header.num_blocks = config.num_blocks;
    header.block_size = config.block_size;
    for (std::int64_t g = 0; g < config.num_groups; ++g) header.window_tokens.push_back(config.window(g));
    return header;
  }
};

/// A request as it was submitted.
struct TraceRequest {
  std::int64_t t_ns = 0;  ///< set by the recorder
  std::string id;
  std::vector<TokenId> prompt_ids;
  std::int64_t max_tokens = 0;  ///< per answer
  std::int64_t num_answers = 1;
  std::string tenant{};  ///< requests of different tenants share no prefix
  std::optional<std::int64_t> priority{};  ///< retention priority of its blocks, 0 (first out) to 100
  std::int64_t ttl_ns = 0;               ///< how long that priority counts; 0 = without end
};

/// The end of an answer.
struct TraceFinish {
  std::int64_t t_ns = 0;  ///< set by the recorder
  std::string id;
  std::uint32_t answer = 0;  ///< which of the request's answers
  std::string reason;
  std::vector<TokenId> output_ids;
};

/// One sequence's part in a planned step.
struct PlannedRow {
  std::string id;  ///< of the request
  SeqId seq{};
  std::int64_t first_position = 0;
  std::int64_t num_tokens = 0;
  std::uint32_t answer = 0;
  std::int64_t cached_tokens = -1;  ///< of an answer that this step admits: what the prefix cache gave it; -1 = it ran before
};

/// What a step computes.
struct TracePlan {
  std::optional<StepId> step{};  ///< missing = the step that is sealed next
  std::vector<PlannedRow> rows{};
};

/// By PreemptionKind: how an answer lost its row.
inline constexpr std::array<std::string_view, 3> kPreemptionNames{"keep", "demote", "recompute"};
constexpr std::string_view name_of(PreemptionKind kind) { return kPreemptionNames[static_cast<std::size_t>(kind)]; }

/// An answer that lost its row. It is admitted again by rows that have `cached_tokens`.
struct TracePreemption {
  std::int64_t t_ns = 0;  ///< set by the recorder
  std::string id;
  std::uint32_t answer = 0;
  PreemptionKind kind{};
};

/// Blocks on their way between the pool and the host tier.
struct TraceTransfer {
  std::int64_t t_ns = 0;  ///< set by the recorder
  std::string id{};       ///< the answer that waits for blocks that come back: it is loading until its next rows; empty = the whole step
  std::uint32_t answer = 0;
  std::int64_t demoted_blocks = 0;
  std::int64_t promoted_blocks = 0;
};

}  // namespace kvpage::engine
