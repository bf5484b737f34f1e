/// \file plan_bytes: how much memory a KV cache takes, before anything is allocated.
#pragma once

#include <kvpage/kv/kv_pool.hpp>

#include <algorithm>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// What sequences demand of a pool.
struct KVDemand {
  std::int64_t context_tokens = 0;  ///< longest sequence
  std::int64_t num_seqs = 1;        ///< sequences of that length at one time, nothing shared
  std::int64_t step_tokens = 1;     ///< most tokens of one sequence in one step; counts with windows only
};

/// The memory of a KV pool for a number of sequences of a number of tokens.
struct KVPlan {
  std::int64_t num_blocks = 0;
  std::int64_t page_bytes = 0;        ///< all layers of a page, scales and padding included
  std::int64_t pool_bytes = 0;        ///< num_blocks * page_bytes
  std::int64_t bytes_per_token = 0;   ///< one page per group / block_size, rounded up: a token that all layers keep
  std::int64_t payload_per_token = 0; ///< 2 * layers * kv_heads * head_dim * code bytes, without scales
};

/// Pages that one sequence holds at most in one cache group. A group with a window of W tokens (0 = full attention) keeps, during a
/// step of s tokens, the last W - 1 + s tokens, which begin anywhere in a page.
KVPAGE_HD constexpr std::int64_t blocks_per_seq(std::int64_t window_tokens, std::int64_t block_size, const KVDemand& demand) noexcept {
  const std::int64_t whole = ceil_div(demand.context_tokens, block_size);
  if (window_tokens == 0 || window_tokens >= demand.context_tokens) return whole;
  return std::min(whole, ceil_div(window_tokens + demand.step_tokens, block_size) + 1);
}

/// The same over all groups. `window_tokens` [num_groups], 0 = full attention.
constexpr std::int64_t blocks_per_seq(std::span<const std::int64_t> window_tokens, std::int64_t block_size,
                                      const KVDemand& demand) noexcept {
  std::int64_t blocks = 0;
  for (const std::int64_t window : window_tokens) blocks += blocks_per_seq(window, block_size, demand);
  return blocks;
}

/// Pages and bytes that hold `demand`, with one table per entry of `window_tokens` (0 = full attention) and shape.num_layers layers in
/// a page. `shape.num_blocks` is ignored. Requires: num_layers, num_kv_heads, head_dim and block_size are set.
template <KVStorage KV>
constexpr KVPlan plan_bytes(const KVPoolShape& shape, std::span<const std::int64_t> window_tokens, const KVDemand& demand) noexcept {
  const auto num_groups = static_cast<std::int64_t>(window_tokens.size());
  KVPlan plan;
  plan.num_blocks = blocks_per_seq(window_tokens, shape.block_size, demand) * demand.num_seqs;
  plan.page_bytes = page_bytes<KV>(shape);
  plan.pool_bytes = plan.num_blocks * plan.page_bytes;
  plan.bytes_per_token = ceil_div(num_groups * plan.page_bytes, shape.block_size);
  plan.payload_per_token = num_groups * shape.num_layers * shape.num_kv_heads * shape.head_dim * (KV::Key::kBits + KV::Value::kBits) / 8;
  return plan;
}

/// The same for one group of full attention that holds all layers.
template <KVStorage KV>
constexpr KVPlan plan_bytes(const KVPoolShape& shape, std::int64_t context_tokens, std::int64_t num_seqs = 1) noexcept {
  constexpr std::int64_t kFullAttention[1] = {};
  return plan_bytes<KV>(shape, std::span<const std::int64_t>(kFullAttention), {.context_tokens = context_tokens, .num_seqs = num_seqs});
}

KVPAGE_END_NAMESPACE
