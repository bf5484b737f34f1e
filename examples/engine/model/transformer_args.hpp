/// \file The args of a Transformer's operations: which buffers, weights and settings each of them gets.
#pragma once

#include "engine/model/transformer.hpp"

namespace kvpage::engine {

/// Cosines and sines of the step's positions, for all layers.
template <Backend B, KVFormat Format>
void Transformer<B, Format>::make_rope_tables(Launches& run) {
  const auto fill = [&](const RopeTables& rope, float* table) {
    run.rope_table({.positions = inputs_.positions, .num_tokens = num_tokens_, .inv_freq = rope.inv_freq.data,
                    .rotary_dim = spec_.rotary_dim, .magnitude = rope.magnitude, .out = table});
  };
  fill(full_rope_, workspace_.full_rope);
  if (workspace_.window_rope != nullptr) fill(window_rope_, workspace_.window_rope);
}

template <Backend B, KVFormat Format>
void Transformer<B, Format>::plan_attention(Launches& run) {
  for_each_planned_layer([&](std::int64_t layer) { run.plan_attention(attention_of(layer), attention_plans_[plan_index(layer)]); });
}

template <Backend B, KVFormat Format>
RmsNormArgs Transformer<B, Format>::norm_of_rows(StoredVector weight, const float* x, float* out, std::int64_t num_rows) const {
  const std::int64_t width = spec_.hidden_size;
  return {.x = x, .x_stride = width, .weight = weight.data, .out = out, .out_stride = width, .num_rows = num_rows, .dim = width,
          .eps = spec_.norm_epsilon};
}

/// The residual stream as the input of `matrices`: nobody needs its floats if they multiply codes. Normed rows, whose rounding makes most
/// of the error, get the more exact scales (docs/quality.md).
template <Backend B, KVFormat Format>
RmsNormArgs Transformer<B, Format>::norm_before(StoredVector weight, std::initializer_list<const Weight*> matrices) const {
  const bool as_codes = std::all_of(matrices.begin(), matrices.end(), [](const Weight* w) { return Traits::multiplies_codes(*w); });
  RmsNormArgs args = norm_of_rows(weight, workspace_.hidden, as_codes ? nullptr : workspace_.normed, num_tokens_);
  args.group_scale = GroupScale::kSearched;
  return args;
}

/// In place; no rows if the model has no such norm.
template <Backend B, KVFormat Format>
RmsNormArgs Transformer<B, Format>::norm_of_heads(StoredVector weight, float* heads, std::int64_t num_rows) const {
  if (weight.empty()) return {};
  return {.x = heads, .x_stride = spec_.head_dim, .weight = weight.data, .out = heads, .out_stride = spec_.head_dim,
          .num_rows = num_rows, .dim = spec_.head_dim, .eps = spec_.norm_epsilon};
}

template <Backend B, KVFormat Format>
RopeArgs Transformer<B, Format>::rope_of_heads(std::int64_t index, float* heads, std::int64_t num_heads) const {
  const RopeTables& rope = rope_of(index);
  const float* table = has_window(index) ? workspace_.window_rope : workspace_.full_rope;
  return {.x = heads, .token_stride = num_heads * spec_.head_dim, .num_tokens = num_tokens_, .num_heads = num_heads,
          .head_dim = spec_.head_dim, .rotary_dim = spec_.rotary_dim, .positions = inputs_.positions, .inv_freq = rope.inv_freq.data,
          .pairing = spec_.traits.rope_pairing, .magnitude = rope.magnitude, .table = Launches::kHasRopeTables ? table : nullptr};
}

template <Backend B, KVFormat Format>
KeyBias Transformer<B, Format>::key_bias_of(std::int64_t index) const {
  const Layer& layer = weights_.layers[static_cast<std::size_t>(index)];
  const RopeTables& rope = rope_of(index);
  // A norm of the keys after the bias mixes it with the data: then it is no longer a constant that could be taken out.
  if (layer.k_bias.empty() || !layer.k_norm.empty() || rope.num_pages == 0) return {};
  return {.bias = layer.k_bias.data, .page_rotation = rope.page_rotation.data, .num_pages = rope.num_pages,
          .rotary_dim = spec_.rotary_dim, .adjacent_pairs = spec_.traits.rope_pairing == RopePairing::kAdjacent};
}

/// Queries, and keys and values in their pages.
template <Backend B, KVFormat Format>
auto Transformer<B, Format>::heads_of(std::int64_t index) const -> Heads {
  const Layer& layer = weights_.layers[static_cast<std::size_t>(index)];
  const Workspace& w = workspace_;
  const std::int64_t n = num_tokens_, stride = spec_.num_kv_heads * spec_.head_dim;
  const auto product = [this](const Weight& weight, StoredVector bias, float* out) {
    return MatmulArgs<Weight, Input>{StepOperation::kQkv, &weight, &input_, bias.data, out, weight.rows};
  };
  return {.products = {product(layer.q, layer.q_bias, w.q), product(layer.k, layer.k_bias, w.k), product(layer.v, layer.v_bias, w.v)},
          .norms = {norm_of_heads(layer.q_norm, w.q, n * spec_.num_q_heads), norm_of_heads(layer.k_norm, w.k, n * spec_.num_kv_heads)},
          .ropes = {rope_of_heads(index, w.q, spec_.num_q_heads), rope_of_heads(index, w.k, spec_.num_kv_heads)},
          .append = {.view = pool_.view(place_of(index).layer_in_page), .k = w.k, .v = w.v, .k_stride = stride, .v_stride = stride,
                     .slots = group_of(index).slots, .num_tokens = n, .positions = inputs_.positions, .key_bias = key_bias_of(index)}};
}

template <Backend B, KVFormat Format>
PagedAttentionArgs<typename Transformer<B, Format>::KV> Transformer<B, Format>::attention_of(std::int64_t index) const {
  PagedAttentionArgs<KV> args;
  args.q = workspace_.q;
  args.q_stride = q_width();
  args.num_tokens = num_tokens_;
  args.num_q_heads = spec_.num_q_heads;
  args.seqs = inputs_.sequences;
  args.view = pool_.view(place_of(index).layer_in_page, group_of(index).tables);
  args.scale = spec_.attention_scale;
  args.window = spec_.layer_window_tokens(index);
  args.softcap = spec_.attention_soft_cap;
  args.key_bias = key_bias_of(index);
  args.out = workspace_.attention;
  args.out_stride = q_width();
  return args;
}

template <Backend B, KVFormat Format>
auto Transformer<B, Format>::gate_of(const Layer& layer) const -> GateArgs<Weight, Input> {
  return {.gate = &layer.gate, .up = &layer.up, .next = &layer.down, .input = &input_, .gate_bias = layer.gate_bias.data,
          .up_bias = layer.up_bias.data, .activation = spec_.traits.activation, .gate_rows = workspace_.gate, .up_rows = workspace_.up,
          .stride = spec_.ffn_size};
}

}  // namespace kvpage::engine
