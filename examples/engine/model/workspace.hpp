/// \file Workspace: the activations of one step, in one piece of a backend's memory.
#pragma once

#include "engine/model/model_spec.hpp"

#include <kvpage/base/types.hpp>
#include <kvpage/kernels/gemm/cpu_row_argmax.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvpage::engine {

/// How large a workspace is.
struct WorkspaceShape {
  std::int64_t max_tokens = 0;      ///< rows of a step
  std::int64_t max_logit_rows = 0;
  bool gated_rows = false;          ///< with the two buffers between gate, up and down
};

/// Views of the buffers; row i of a buffer is its i-th token.
struct Workspace {
  /// Bytes that `place` wants.
  static std::int64_t bytes(const ModelSpec& spec, const WorkspaceShape& shape);

  /// The buffers in `memory` [>= bytes], aligned to 64 bytes.
  static Workspace place(const ModelSpec& spec, const WorkspaceShape& shape, std::span<std::byte> memory);

  float* hidden = nullptr;     // [max_tokens, hidden_size], the residual stream
  float* normed = nullptr;     // [max_tokens, hidden_size], also the output of a block before its post-norm
  float* q = nullptr;          // [max_tokens, num_q_heads, head_dim]
  float* k = nullptr;          // [max_tokens, num_kv_heads, head_dim]
  float* v = nullptr;          // [max_tokens, num_kv_heads, head_dim]
  float* attention = nullptr;  // [max_tokens, num_q_heads, head_dim]
  float* full_rope = nullptr;    // [max_tokens, 2, rotary_dim / 2], cosines and sines of a step
  float* window_rope = nullptr;  // the same for layers with a window, or null
  float* gate = nullptr;       // [max_tokens, ffn_size] or null
  float* up = nullptr;         // [max_tokens, ffn_size] or null
  float* logits = nullptr;     // [max_logit_rows, vocab_size]
  RowArgmax* argmaxes = nullptr;  // [max_logit_rows]
};

namespace detail {
struct CutWorkspace {
  Workspace workspace{};
  std::int64_t used_bytes = 0;
};

/// `base` null: only counts.
inline CutWorkspace cut_workspace(const ModelSpec& spec, const WorkspaceShape& shape, std::byte* base) {
  CutWorkspace done;
  const auto take = [&]<class T>(T*& buffer, std::int64_t count) {
    constexpr std::int64_t kAlignment = 64;
    if (base != nullptr) buffer = reinterpret_cast<T*>(base + done.used_bytes);
    done.used_bytes += round_up(count * static_cast<std::int64_t>(sizeof(T)), kAlignment);
  };
  Workspace& w = done.workspace;
  const std::int64_t n = shape.max_tokens, q_width = spec.num_q_heads * spec.head_dim, kv_width = spec.num_kv_heads * spec.head_dim;
  take(w.hidden, n * spec.hidden_size);
  take(w.normed, n * spec.hidden_size);
  take(w.q, n * q_width);
  take(w.k, n * kv_width);
  take(w.v, n * kv_width);
  take(w.attention, n * q_width);
  take(w.full_rope, n * spec.rotary_dim);
  if (spec.window_tokens > 0) take(w.window_rope, n * spec.rotary_dim);
  if (shape.gated_rows) {
    take(w.gate, n * spec.ffn_size);
    take(w.up, n * spec.ffn_size);
  }
  take(w.logits, shape.max_logit_rows * spec.vocab_size);
  take(w.argmaxes, shape.max_logit_rows);
  return done;
}
}  // namespace detail

inline std::int64_t Workspace::bytes(const ModelSpec& spec, const WorkspaceShape& shape) {
  return detail::cut_workspace(spec, shape, nullptr).used_bytes;
}

inline Workspace Workspace::place(const ModelSpec& spec, const WorkspaceShape& shape, std::span<std::byte> memory) {
  return detail::cut_workspace(spec, shape, memory.data()).workspace;
}

}  // namespace kvpage::engine
