/// \file DenseReference: a generated model computed in double, all positions at once; it shares no code with the engine.
#pragma once

#include "support/tiny_gguf.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace kvpage_test {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

/// Dense causal attention without pages, cache or steps, on tensors read from the writer's own bytes.
/// The switches of `model` say what is computed, whatever tensors `file` has: so a test can leave one out.
class DenseReference {
 public:
  explicit DenseReference(const TinyModel& model) : DenseReference(model, tiny_gguf(model)) {}
  /// Requires: every tensor of `file` holds 32-bit floats.
  DenseReference(const TinyModel& model, const GgufWriter& file) : model_(model) {
    for (const GgufWriter::Tensor& tensor : file.tensors) {
      Row& values = tensors_[tensor.name];
      for (std::size_t i = 0; i < tensor.data.size(); i += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, tensor.data.data() + i, sizeof value);
        values.push_back(static_cast<double>(value));
      }
    }
  }

  bool scale_embedding = true;    ///< where the architecture does so
  double full_rope_divisor = 1;   ///< of the angles in layers that see everything
  double window_rope_base = 1e4;  ///< in layers with a window, where the architecture has one of its own

  /// Logits after each token. // [num_tokens, vocab_size]
  template <class Ids>
  Rows logits(const Ids& ids) const {
    Rows result;
    for (const Row& x : hidden(ids, model_.num_layers)) result.push_back(output(norm(x, tensor("output_norm.weight"))));
    return result;
  }

  /// The residual stream behind the first `num_layers` layers. // [num_tokens, hidden]
  template <class Ids>
  Rows hidden(const Ids& ids, std::uint32_t num_layers) const {
    Rows rows;
    for (const auto id : ids) rows.push_back(embedding(id));
    for (std::uint32_t layer = 0; layer < num_layers; ++layer) run_layer(layer, rows);
    return rows;
  }

 private:
  bool is_gemma() const { return model_.architecture == "gemma3"; }
  const Row& tensor(const std::string& name) const { return tensors_.at(name); }

  Row embedding(std::size_t id) const {
    const Row& table = tensor("token_embd.weight");
    const auto first = table.begin() + static_cast<std::ptrdiff_t>(id * model_.hidden);
    Row x(first, first + model_.hidden);
    if (is_gemma() && scale_embedding) {
      for (double& value : x) value *= std::sqrt(static_cast<double>(model_.hidden));
    }
    return x;
  }

  static Row times(const Row& matrix, const Row& x) {
    Row out(matrix.size() / x.size());
    for (std::size_t r = 0; r < out.size(); ++r) {
      for (std::size_t c = 0; c < x.size(); ++c) out[r] += matrix[r * x.size() + c] * x[c];
    }
    return out;
  }

  /// RMS norm of each piece of weight.size() values.
  Row norm(Row x, const Row& weight) const {
    for (std::size_t begin = 0; begin < x.size(); begin += weight.size()) {
      double squares = 0;
      for (std::size_t i = 0; i < weight.size(); ++i) squares += x[begin + i] * x[begin + i];
      const double root = std::sqrt(squares / static_cast<double>(weight.size()) + static_cast<double>(model_.norm_epsilon));
      for (std::size_t i = 0; i < weight.size(); ++i) x[begin + i] = x[begin + i] / root * weight[i];
    }
    return x;
  }

  static void add(Row& x, const Row& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  static double capped(double value, float cap) {
    const auto limit = static_cast<double>(cap);
    return cap == 0 ? value : limit * std::tanh(value / limit);
  }

  bool has_window(std::uint32_t layer) const {
    const std::uint32_t period = model_.window_pattern;
    return model_.window != 0 && (period == 0 || (layer + 1) % period != 0);
  }

  /// Turns every head of a query or key row to its position.
  void rotate(Row& heads, std::size_t position, std::uint32_t layer) const {
    const std::size_t dim = model_.head_dim;
    const bool own_base = is_gemma() && has_window(layer);
    const double base = own_base ? window_rope_base : static_cast<double>(model_.rope_base);
    const auto factors = tensors_.find("rope_freqs.weight");
    for (std::size_t begin = 0; begin < heads.size(); begin += dim) {
      for (std::size_t i = 0; i < dim / 2; ++i) {
        double angle = static_cast<double>(position) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        if (!own_base) angle /= full_rope_divisor;
        if (!own_base && factors != tensors_.end()) angle /= factors->second[i];
        double& a = heads[begin + (model_.architecture == "llama" ? 2 * i : i)];
        double& b = heads[begin + (model_.architecture == "llama" ? 2 * i + 1 : i + dim / 2)];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
    }
  }

  Row project(std::uint32_t layer, const std::string& part, const Row& x) const {
    const std::string name = prefix(layer) + "attn_" + part;
    Row out = times(tensor(name + ".weight"), x);
    if (model_.qkv_bias) add(out, tensor(name + ".bias"));
    if (model_.qk_norm && part != "v") out = norm(std::move(out), tensor(name + "_norm.weight"));
    return out;
  }

  static std::string prefix(std::uint32_t layer) { return "blk." + std::to_string(layer) + "."; }

  /// Attention of the last row of q over all keys so far. // [num_q_heads * head_dim]
  Row attend(std::uint32_t layer, const Row& q, const Rows& keys, const Rows& values) const {
    const std::size_t dim = model_.head_dim, per_kv_head = model_.num_q_heads / model_.num_kv_heads;
    const std::size_t position = keys.size() - 1;
    const std::size_t first = has_window(layer) && position + 1 > model_.window ? position + 1 - model_.window : 0;
    Row out(q.size());
    for (std::size_t h = 0; h < model_.num_q_heads; ++h) {
      Row weights;
      double sum = 0;
      for (std::size_t j = first; j <= position; ++j) {
        double dot = 0;
        for (std::size_t d = 0; d < dim; ++d) dot += q[h * dim + d] * keys[j][h / per_kv_head * dim + d];
        weights.push_back(std::exp(capped(dot / std::sqrt(static_cast<double>(dim)), model_.attention_soft_cap)));
        sum += weights.back();
      }
      for (std::size_t j = first; j <= position; ++j) {
        for (std::size_t d = 0; d < dim; ++d) out[h * dim + d] += weights[j - first] / sum * values[j][h / per_kv_head * dim + d];
      }
    }
    return out;
  }

  void run_layer(std::uint32_t layer, Rows& hidden) const {
    const std::string name = prefix(layer);
    Rows keys, values;
    for (std::size_t t = 0; t < hidden.size(); ++t) {
      Row& x = hidden[t];
      const Row normed = norm(x, tensor(name + "attn_norm.weight"));
      Row q = project(layer, "q", normed);
      rotate(q, t, layer);
      keys.push_back(project(layer, "k", normed));
      rotate(keys.back(), t, layer);
      values.push_back(project(layer, "v", normed));
      Row block = times(tensor(name + "attn_output.weight"), attend(layer, q, keys, values));
      if (model_.attn_output_bias) add(block, tensor(name + "attn_output.bias"));
      if (model_.post_norms) block = norm(block, tensor(name + "post_attention_norm.weight"));
      add(x, block);
      block = feed_forward(name, norm(x, tensor(name + "ffn_norm.weight")));
      if (model_.post_norms) block = norm(block, tensor(name + "post_ffw_norm.weight"));
      add(x, block);
    }
  }

  Row feed_forward(const std::string& name, const Row& x) const {
    Row gate = times(tensor(name + "ffn_gate.weight"), x);
    Row up = times(tensor(name + "ffn_up.weight"), x);
    if (model_.ffn_bias) add(gate, tensor(name + "ffn_gate.bias")), add(up, tensor(name + "ffn_up.bias"));
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double g = gate[i];
      const double silu = g / (1 + std::exp(-g));
      const double gelu = 0.5 * g * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g)));
      gate[i] = (is_gemma() ? gelu : silu) * up[i];
    }
    Row out = times(tensor(name + "ffn_down.weight"), gate);
    if (model_.ffn_bias) add(out, tensor(name + "ffn_down.bias"));
    return out;
  }

  Row output(const Row& x) const {
    Row result = times(tensor(model_.tied ? "token_embd.weight" : "output.weight"), x);
    if (model_.output_bias) add(result, tensor("output.bias"));
    for (double& value : result) value = capped(value, model_.final_soft_cap);
    return result;
  }

  TinyModel model_;
  std::map<std::string, Row> tensors_;
};

}  // namespace kvpage_test
