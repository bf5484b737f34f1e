/// \file TransformerWeights: the tensors of a decoder-only transformer, in the form that a backend's kernels read.
#pragma once

#include "engine/model/tensor_reader.hpp"

#include <string>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// One layer. An empty vector = the model has none. Matrices are [rows = outputs, cols = inputs].
template <class Weight>
struct LayerWeights {
  std::vector<float> attn_norm;       // [hidden_size]
  Weight q, k, v;                     // [num_heads * head_dim, hidden_size]
  std::vector<float> q_bias, k_bias, v_bias;  // [num_heads * head_dim]
  std::vector<float> q_norm, k_norm;  // [head_dim]
  Weight attn_output;                 // [hidden_size, num_q_heads * head_dim]
  std::vector<float> post_attn_norm;  // [hidden_size]
  std::vector<float> ffn_norm;        // [hidden_size]
  Weight gate, up;                    // [ffn_size, hidden_size]
  Weight down;                        // [hidden_size, ffn_size]
  std::vector<float> post_ffn_norm;   // [hidden_size]
};

/// A whole model.
template <class Weight>
struct TransformerWeights {
  Weight embedding;                 // [vocab_size, hidden_size]
  std::vector<LayerWeights<Weight>> layers;
  std::vector<float> output_norm;   // [hidden_size]
  std::vector<float> rope_factors;  // [rotary_dim / 2], divisors of the frequencies; empty = none
  Weight output;                    // [vocab_size, hidden_size]; unused if tied
  bool tied_output = false;         ///< the embedding matrix is the output matrix
};

/// Reads all tensors of `spec`; `load(name, WeightView) -> Weight` brings a matrix into the backend's form.
template <class Weight, class Load>
class TransformerWeightsReader {
 public:
  TransformerWeightsReader(const ModelSpec& spec, TensorReader& tensors, Load& load) : spec_(spec), tensors_(tensors), load_(load) {}

  TransformerWeights<Weight> read() {
    TransformerWeights<Weight> weights;
    weights.embedding = matrix("token_embd.weight", spec_.vocab_size, spec_.hidden_size);
    for (std::int64_t i = 0; i < spec_.num_layers; ++i) weights.layers.push_back(read_layer("blk." + std::to_string(i) + "."));
    weights.output_norm = tensors_.vector("output_norm.weight", spec_.hidden_size);
    weights.rope_factors = tensors_.divisors("rope_freqs.weight", spec_.rotary_dim / 2, Presence::kOptional);
    weights.tied_output = !tensors_.has("output.weight");
    if (!weights.tied_output) weights.output = matrix("output.weight", spec_.vocab_size, spec_.hidden_size);
    return weights;
  }

 private:
  Weight matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const WeightView view = tensors_.matrix(name, rows, cols);
    return view.data == nullptr ? Weight{} : load_(name, view);
  }

  LayerWeights<Weight> read_layer(const std::string& prefix) {
    const std::int64_t hidden = spec_.hidden_size;
    const std::int64_t q_rows = spec_.num_q_heads * spec_.head_dim;
    const std::int64_t kv_rows = spec_.num_kv_heads * spec_.head_dim;
    const Presence post_norms = spec_.traits.post_norms ? Presence::kRequired : Presence::kAbsent;
    LayerWeights<Weight> layer;
    layer.attn_norm = tensors_.vector(prefix + "attn_norm.weight", hidden);
    layer.q = matrix(prefix + "attn_q.weight", q_rows, hidden);
    layer.k = matrix(prefix + "attn_k.weight", kv_rows, hidden);
    layer.v = matrix(prefix + "attn_v.weight", kv_rows, hidden);
    layer.q_bias = tensors_.vector(prefix + "attn_q.bias", q_rows, spec_.traits.qkv_bias);
    layer.k_bias = tensors_.vector(prefix + "attn_k.bias", kv_rows, spec_.traits.qkv_bias);
    layer.v_bias = tensors_.vector(prefix + "attn_v.bias", kv_rows, spec_.traits.qkv_bias);
    layer.q_norm = tensors_.vector(prefix + "attn_q_norm.weight", spec_.head_dim, spec_.traits.qk_norm);
    layer.k_norm = tensors_.vector(prefix + "attn_k_norm.weight", spec_.head_dim, spec_.traits.qk_norm);
    layer.attn_output = matrix(prefix + "attn_output.weight", hidden, q_rows);
    layer.post_attn_norm = tensors_.vector(prefix + "post_attention_norm.weight", hidden, post_norms);
    layer.ffn_norm = tensors_.vector(prefix + "ffn_norm.weight", hidden);
    layer.gate = matrix(prefix + "ffn_gate.weight", spec_.ffn_size, hidden);
    layer.up = matrix(prefix + "ffn_up.weight", spec_.ffn_size, hidden);
    layer.down = matrix(prefix + "ffn_down.weight", hidden, spec_.ffn_size);
    layer.post_ffn_norm = tensors_.vector(prefix + "post_ffw_norm.weight", hidden, post_norms);
    return layer;
  }

  const ModelSpec& spec_;
  TensorReader& tensors_;
  Load& load_;
};

}  // namespace kvpage::engine
