/// \file ModelSpec: everything that distinguishes one decoder-only transformer from another, as values.
#pragma once

#include <kvpage/kernels/activation/args.hpp>
#include <kvpage/kernels/rope/args.hpp>
#include <kvpage/kernels/rope/frequencies.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace kvpage::engine {

/// Whether an architecture has a kind of tensor.
enum class Presence : std::uint8_t { kAbsent, kOptional, kRequired };

/// What is fixed by the architecture's name, whether or not a file says it. One row of the table in architectures.hpp.
struct ArchitectureTraits {
  const char* name;
  RopePairing rope_pairing;
  GateActivation activation;
  Presence qkv_bias;             ///< additive bias of the q, k and v projections
  Presence attn_output_bias;     ///< of the matrix behind attention
  Presence ffn_bias;             ///< of the gate, up and down projections
  Presence output_bias;          ///< of the output matrix
  Presence fused_qkv;            ///< one tensor attn_qkv with the rows of q, k and v
  Presence fused_gate_up;        ///< no tensor ffn_gate, and its rows in front of those of ffn_up
  Presence qk_norm;              ///< RMSNorm of each query and key head before RoPE
  bool post_norms;               ///< RMSNorm of the attention and feed-forward outputs before the residual sum
  bool scale_embedding;          ///< embeddings times sqrt(hidden_size), in single precision
  std::int64_t width_scaled_layers;  ///< models of so many layers scale scores by 1 / sqrt(hidden_size / num_q_heads); 0 = none does
  double rope_theta;             ///< RoPE base of a file that names none; 0 = it must name one
  bool has_windows;              ///< `attention.sliding_window` is read
  int full_attention_period;     ///< every n-th layer has no window, unless the file says otherwise; 0 = all have
  double window_rope_theta;      ///< RoPE base of layers with a window, which take no scaling then; 0 = as in the others
};

/// Sizes and switches of one model. All counts are positive and consistent once `read_model_spec` returned it.
struct ModelSpec {
  ArchitectureTraits traits{};
  std::string name;

  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_size = 0;
  std::int64_t num_q_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t context_limit_tokens = 0;

  float norm_epsilon = 0;
  float embedding_scale = 1;
  float attention_scale = 1;
  float attention_soft_cap = 0;  ///< 0 = none
  float logit_soft_cap = 0;      ///< 0 = none
  std::int64_t window_tokens = 0;  ///< 0 = full attention everywhere
  std::vector<bool> window_layers;  ///< [num_layers], which ones have the window; empty = the period of the traits says it

  RopeScaling rope;         ///< of layers that see everything
  RopeScaling window_rope;  ///< of layers with a window

  /// Keys that layer `layer` may look back on; 0 = all.
  std::int64_t layer_window_tokens(std::int64_t layer) const {
    if (!window_layers.empty()) return window_layers[static_cast<std::size_t>(layer)] ? window_tokens : 0;
    const bool sees_all = traits.full_attention_period > 0 && (layer + 1) % traits.full_attention_period == 0;
    return sees_all ? 0 : window_tokens;
  }
};

}  // namespace kvpage::engine
