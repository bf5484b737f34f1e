/// \file TransformerWeights: the tensors of a decoder-only transformer, in the form that a backend's kernels read.
#pragma once

#include "engine/model/tensor_reader.hpp"
#include "engine/model/vector_store.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// One layer. An empty vector = the model has none; where vectors lie is the backend's business. Matrices are [rows = outputs, cols =
/// inputs].
template <class Weight>
struct LayerWeights {
  StoredVector attn_norm;       // [hidden_size]
  Weight q, k, v;                     // [num_heads * head_dim, hidden_size]
  StoredVector q_bias, k_bias, v_bias;  // [num_heads * head_dim]
  StoredVector q_norm, k_norm;  // [head_dim]
  Weight attn_output;                 // [hidden_size, num_q_heads * head_dim]
  StoredVector attn_output_bias;  // [hidden_size]
  StoredVector post_attn_norm;  // [hidden_size]
  StoredVector ffn_norm;        // [hidden_size]
  Weight gate, up;                    // [ffn_size, hidden_size]
  StoredVector gate_bias, up_bias;  // [ffn_size]
  Weight down;                        // [hidden_size, ffn_size]
  StoredVector down_bias;       // [hidden_size]
  StoredVector post_ffn_norm;   // [hidden_size]
};

/// A whole model.
template <class Weight>
struct TransformerWeights {
  Weight embedding;                 // [vocab_size, hidden_size]
  std::vector<LayerWeights<Weight>> layers;
  StoredVector output_norm;   // [hidden_size]
  std::vector<float> rope_factors;  // [rotary_dim / 2], divisors of the frequencies; empty = none
  Weight output;                    // [vocab_size, hidden_size]; unused if tied
  StoredVector output_bias;   // [vocab_size]
  bool tied_output = false;         ///< the embedding matrix is the output matrix
};

/// Reads all tensors of `spec`; `load(name, WeightView) -> Weight` brings a matrix into the backend's form, `load.vector(floats)`, if it
/// has that, a vector into its memory.
template <class Weight, class Load>
class TransformerWeightsReader {
 public:
  TransformerWeightsReader(const ModelSpec& spec, TensorReader& tensors, Load& load) : spec_(spec), tensors_(tensors), load_(load) {}

  TransformerWeights<Weight> read() {
    TransformerWeights<Weight> weights;
    weights.embedding = matrix("token_embd.weight", spec_.vocab_size, spec_.hidden_size);
    for (std::int64_t i = 0; i < spec_.num_layers; ++i) weights.layers.push_back(read_layer("blk." + std::to_string(i) + "."));
    weights.output_norm = vector("output_norm.weight", spec_.hidden_size);
    weights.rope_factors = tensors_.divisors("rope_freqs.weight", spec_.rotary_dim / 2, Presence::kOptional);
    weights.tied_output = !tensors_.has("output.weight");
    if (!weights.tied_output) weights.output = matrix("output.weight", spec_.vocab_size, spec_.hidden_size);
    weights.output_bias = vector("output.bias", spec_.vocab_size, spec_.traits.output_bias);
    return weights;
  }

 private:
  /// A tensor without its ending, or rows [first, first + rows) of one that several matrices share.
  struct Part {
    std::string name;
    std::int64_t first;
    std::int64_t rows;
    std::int64_t tensor_rows;
  };

  Weight matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const WeightView view = tensors_.matrix(name, rows, cols);
    return view.data == nullptr ? Weight{} : load_(name, view);
  }

  Weight matrix(const Part& part, std::int64_t cols) {
    const WeightView view = tensors_.matrix(part.name + ".weight", part.tensor_rows, cols);
    return view.data == nullptr ? Weight{} : load_(part.name + ".weight", view.slice_rows(part.first, part.rows));
  }

  StoredVector store(std::span<const float> values) {
    if constexpr (requires { load_.vector(values); }) return load_.vector(values);
    return {};
  }

  StoredVector vector(const std::string& name, std::int64_t size, Presence presence = Presence::kRequired) {
    return store(tensors_.vector(name, size, presence));
  }

  StoredVector bias(const Part& part, Presence presence) {
    const std::vector<float> whole = tensors_.vector(part.name + ".bias", part.tensor_rows, presence);
    if (whole.empty()) return {};
    return store(std::span(whole).subspan(static_cast<std::size_t>(part.first), static_cast<std::size_t>(part.rows)));
  }

  /// The part of `fused` behind `first` others if that tensor is there, else the tensor `single`.
  Part part(const std::string& ending, const std::string& fused, const std::string& single, std::int64_t first, std::int64_t rows,
            std::int64_t fused_rows) {
    if (!fused.empty() && tensors_.has(fused + ending)) return {fused, first, rows, fused_rows};
    return {single, 0, rows, rows};
  }

  /// Queries, keys and values. A fused matrix may have biases of its own or those of its parts.
  void read_qkv(const std::string& prefix, LayerWeights<Weight>& layer) {
    const std::int64_t q_rows = spec_.num_q_heads * spec_.head_dim, kv_rows = spec_.num_kv_heads * spec_.head_dim;
    const std::string fused = spec_.traits.fused_qkv == Presence::kAbsent ? "" : prefix + "attn_qkv";
    const auto at = [&](const std::string& ending, int index) {
      const std::int64_t first = index == 0 ? 0 : q_rows + (index - 1) * kv_rows;
      return part(ending, fused, prefix + (index == 0 ? "attn_q" : index == 1 ? "attn_k" : "attn_v"), first,
                  index == 0 ? q_rows : kv_rows, q_rows + 2 * kv_rows);
    };
    layer.q = matrix(at(".weight", 0), spec_.hidden_size);
    layer.k = matrix(at(".weight", 1), spec_.hidden_size);
    layer.v = matrix(at(".weight", 2), spec_.hidden_size);
    layer.q_bias = bias(at(".bias", 0), spec_.traits.qkv_bias);
    layer.k_bias = bias(at(".bias", 1), spec_.traits.qkv_bias);
    layer.v_bias = bias(at(".bias", 2), spec_.traits.qkv_bias);
  }

  /// Gate and up: two tensors, or ffn_up with the rows of both, those of gate first.
  /// Source: gate_up_proj of huggingface/transformers, modeling_phi3; build_ffn with LLM_FFN_SWIGLU of llama.cpp.
  void read_gate_up(const std::string& prefix, LayerWeights<Weight>& layer) {
    const std::int64_t rows = spec_.ffn_size, hidden = spec_.hidden_size;
    const Presence presence = spec_.traits.ffn_bias;
    const bool fused = spec_.traits.fused_gate_up != Presence::kAbsent && !tensors_.has(prefix + "ffn_gate.weight") &&
                       tensors_.num_rows(prefix + "ffn_up.weight") == 2 * rows;
    const Part gate = fused ? Part{prefix + "ffn_up", 0, rows, 2 * rows} : Part{prefix + "ffn_gate", 0, rows, rows};
    const Part up = fused ? Part{prefix + "ffn_up", rows, rows, 2 * rows} : Part{prefix + "ffn_up", 0, rows, rows};
    layer.gate = matrix(gate, hidden);
    layer.up = matrix(up, hidden);
    layer.gate_bias = bias(gate, presence);
    layer.up_bias = bias(up, presence);
  }

  LayerWeights<Weight> read_layer(const std::string& prefix) {
    const std::int64_t hidden = spec_.hidden_size;
    const Presence post_norms = spec_.traits.post_norms ? Presence::kRequired : Presence::kAbsent;
    LayerWeights<Weight> layer;
    layer.attn_norm = vector(prefix + "attn_norm.weight", hidden);
    read_qkv(prefix, layer);
    layer.q_norm = vector(prefix + "attn_q_norm.weight", spec_.head_dim, spec_.traits.qk_norm);
    layer.k_norm = vector(prefix + "attn_k_norm.weight", spec_.head_dim, spec_.traits.qk_norm);
    layer.attn_output = matrix(prefix + "attn_output.weight", hidden, spec_.num_q_heads * spec_.head_dim);
    layer.attn_output_bias = vector(prefix + "attn_output.bias", hidden, spec_.traits.attn_output_bias);
    layer.post_attn_norm = vector(prefix + "post_attention_norm.weight", hidden, post_norms);
    layer.ffn_norm = vector(prefix + "ffn_norm.weight", hidden);
    read_gate_up(prefix, layer);
    layer.down = matrix(prefix + "ffn_down.weight", hidden, spec_.ffn_size);
    layer.down_bias = vector(prefix + "ffn_down.bias", hidden, spec_.traits.ffn_bias);
    layer.post_ffn_norm = vector(prefix + "post_ffw_norm.weight", hidden, post_norms);
    return layer;
  }

  const ModelSpec& spec_;
  TensorReader& tensors_;
  Load& load_;
};

}  // namespace kvpage::engine
