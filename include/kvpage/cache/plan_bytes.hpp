/// \file plan_bytes: how much memory a KV cache takes, before anything is allocated.
#pragma once

#include <kvpage/cache/kv_pool.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The memory of a KV pool for a number of sequences of a number of tokens.
struct KVPlan {
  std::int64_t num_blocks = 0;
  std::int64_t page_bytes = 0;        ///< all layers, scales and padding included
  std::int64_t pool_bytes = 0;        ///< num_blocks * page_bytes
  std::int64_t bytes_per_token = 0;   ///< page_bytes / block_size, rounded up
  std::int64_t payload_per_token = 0; ///< 2 * layers * kv_heads * head_dim * code bytes, without scales and padding
};

/// Pages and bytes that hold `num_seqs` sequences of `context_tokens` tokens each, nothing shared.
/// `shape.num_blocks` is ignored. Requires: num_layers, num_kv_heads, head_dim and block_size are set.
template <KVStorage KV>
KVPAGE_HD constexpr KVPlan plan_bytes(const KVPoolShape& shape, std::int64_t context_tokens, std::int64_t num_seqs = 1) noexcept {
  KVPlan plan;
  plan.num_blocks = ceil_div(context_tokens, shape.block_size) * num_seqs;
  plan.page_bytes = page_bytes<KV>(shape);
  plan.pool_bytes = plan.num_blocks * plan.page_bytes;
  plan.bytes_per_token = ceil_div(plan.page_bytes, shape.block_size);
  plan.payload_per_token = shape.num_layers * shape.num_kv_heads * shape.head_dim * (KV::Key::kBits + KV::Value::kBits) / 8;
  return plan;
}

KVPAGE_END_NAMESPACE
