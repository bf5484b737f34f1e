/// \file Workspace: the activations of one step, allocated once.
#pragma once

#include "engine/model/model_spec.hpp"

#include <cstdint>
#include <vector>

namespace kvpage::engine {

/// Buffers for at most `max_tokens` rows; row i of a buffer is its i-th token.
struct Workspace {
  /// `gated_rows`: with the two buffers between gate, up and down.
  Workspace(const ModelSpec& spec, std::int64_t max_tokens, std::int64_t max_logit_rows, bool gated_rows) {
    const auto rows = [max_tokens](std::int64_t cols) { return std::vector<float>(static_cast<std::size_t>(max_tokens * cols)); };
    hidden = rows(spec.hidden_size);
    normed = rows(spec.hidden_size);
    q = rows(spec.num_q_heads * spec.head_dim);
    k = rows(spec.num_kv_heads * spec.head_dim);
    v = rows(spec.num_kv_heads * spec.head_dim);
    attention = rows(spec.num_q_heads * spec.head_dim);
    full_rope = rows(spec.rotary_dim);
    if (spec.window_tokens > 0) window_rope = rows(spec.rotary_dim);
    if (gated_rows) {
      gate = rows(spec.ffn_size);
      up = rows(spec.ffn_size);
    }
    logits.resize(static_cast<std::size_t>(max_logit_rows * spec.vocab_size));
  }

  /// What the constructor allocates.
  static std::int64_t bytes(const ModelSpec& spec, std::int64_t max_tokens, std::int64_t max_logit_rows, bool gated_rows) {
    const std::int64_t head_rows = 2 * spec.num_q_heads + 2 * spec.num_kv_heads;  // q and attention, k and v
    const std::int64_t rope_floats = spec.rotary_dim * (spec.window_tokens > 0 ? 2 : 1);
    const std::int64_t gated_floats = gated_rows ? 2 * spec.ffn_size : 0;
    const std::int64_t floats_per_token = 2 * spec.hidden_size + head_rows * spec.head_dim + rope_floats + gated_floats;
    return static_cast<std::int64_t>(sizeof(float)) * (max_tokens * floats_per_token + max_logit_rows * spec.vocab_size);
  }

  std::vector<float> hidden;     // [max_tokens, hidden_size], the residual stream
  std::vector<float> normed;     // [max_tokens, hidden_size], also the output of a block before its post-norm
  std::vector<float> q;          // [max_tokens, num_q_heads, head_dim]
  std::vector<float> k, v;       // [max_tokens, num_kv_heads, head_dim]
  std::vector<float> attention;  // [max_tokens, num_q_heads, head_dim]
  std::vector<float> full_rope, window_rope;  // [max_tokens, 2, rotary_dim / 2], cosines and sines of a step; or empty
  std::vector<float> gate, up;   // [max_tokens, ffn_size], or empty
  std::vector<float> logits;     // [max_logit_rows, vocab_size]
};

}  // namespace kvpage::engine
