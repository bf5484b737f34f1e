/// \file The layers of a Transformer, from the embedding to the last block.
#pragma once

#include "engine/model/transformer.hpp"

namespace kvpage::engine {

inline const float* data_or_null(const std::vector<float>& bias) { return bias.empty() ? nullptr : bias.data(); }

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::embed(const BatchPlan& plan) {
  const std::int64_t n = plan.num_tokens();
  return profiler_.time(
      StepOperation::kEmbedding,
      [&] {
        return backend_.embedding({.table = weights_.embedding, .tokens = plan.tokens.data(), .num_tokens = n,
                                   .scale = spec_.embedding_scale, .out = workspace_.hidden.data(), .out_stride = spec_.hidden_size});
      },
      [&] {
        const std::int64_t row_bytes = B::weight_bytes(weights_.embedding) / weights_.embedding.rows;
        return OperationCost{.bytes = n * row_bytes + float_bytes(n, spec_.hidden_size)};
      });
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::run_layer(std::int64_t index, const BatchPlan& plan) {
  if (const Status status = attention_block(index, plan); !status.ok()) return status;
  return feed_forward_block(weights_.layers[static_cast<std::size_t>(index)], plan.num_tokens());
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::attention_block(std::int64_t index, const BatchPlan& plan) {
  const Layer& layer = weights_.layers[static_cast<std::size_t>(index)];
  const std::int64_t n = plan.num_tokens();
  const std::int64_t width = spec_.num_q_heads * spec_.head_dim;
  const bool as_codes = B::multiplies_codes(layer.q) && B::multiplies_codes(layer.k) && B::multiplies_codes(layer.v);
  if (const Status status = prepare_normed(layer.attn_norm, n, as_codes); !status.ok()) return status;
  if (const Status status = project_heads(index, plan); !status.ok()) return status;
  if (const Status status = attend(index, plan); !status.ok()) return status;
  if (const Status status = prepare(workspace_.attention.data(), n, width, GroupScale::kLargest); !status.ok()) return status;
  return add_block_output(StepOperation::kOutput, layer.attn_output, layer.attn_output_bias, input_, layer.post_attn_norm, n);
}

/// Cosines and sines of the step's positions, for all layers.
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::make_rope_tables(const BatchPlan& plan) {
  const auto fill = [&](const RopeTables& rope, std::vector<float>& table) -> Status {
    if (table.empty()) return {};
    return profiler_.time(
        StepOperation::kRope,
        [&] {
          return backend_.rope_table({.positions = plan.positions.data(), .num_tokens = plan.num_tokens(), .inv_freq = rope.inv_freq.data(),
                                      .rotary_dim = spec_.rotary_dim, .magnitude = rope.magnitude, .out = table.data()});
        },
        [&] { return OperationCost{.bytes = float_bytes(plan.num_tokens(), spec_.rotary_dim)}; });
  };
  if (const Status status = fill(full_rope_, workspace_.full_rope); !status.ok()) return status;
  return fill(window_rope_, workspace_.window_rope);
}

template <Backend B, KVFormat Format>
RopeArgs Transformer<B, Format>::rope_of_heads(std::int64_t index, const BatchPlan& plan, std::vector<float>& heads,
                                               std::int64_t num_heads) const {
  const RopeTables& rope = rope_of(index);
  return {.x = heads.data(), .token_stride = num_heads * spec_.head_dim, .num_tokens = plan.num_tokens(), .num_heads = num_heads,
          .head_dim = spec_.head_dim, .rotary_dim = spec_.rotary_dim, .positions = plan.positions.data(),
          .inv_freq = rope.inv_freq.data(), .pairing = spec_.traits.rope_pairing, .magnitude = rope.magnitude,
          .table = (has_window(index) ? workspace_.window_rope : workspace_.full_rope).data()};
}

/// In place; no rows if the model has no such norm.
template <Backend B, KVFormat Format>
RmsNormArgs Transformer<B, Format>::norm_of_heads(const std::vector<float>& weight, std::vector<float>& heads,
                                                  std::int64_t num_rows) const {
  if (weight.empty()) return {};
  return {.x = heads.data(), .x_stride = spec_.head_dim, .weight = weight.data(), .out = heads.data(), .out_stride = spec_.head_dim,
          .num_rows = num_rows, .dim = spec_.head_dim, .eps = spec_.norm_epsilon};
}

template <Backend B, KVFormat Format>
KeyBias Transformer<B, Format>::key_bias_of(std::int64_t index) const {
  const Layer& layer = weights_.layers[static_cast<std::size_t>(index)];
  const RopeTables& rope = rope_of(index);
  // A norm of the keys after the bias mixes it with the data: then it is no longer a constant that could be taken out.
  if (layer.k_bias.empty() || !layer.k_norm.empty() || rope.num_pages == 0) return {};
  return {.bias = layer.k_bias.data(), .page_rotation = rope.page_rotation.data(), .num_pages = rope.num_pages,
          .rotary_dim = spec_.rotary_dim, .adjacent_pairs = spec_.traits.rope_pairing == RopePairing::kAdjacent};
}

template <Backend B, KVFormat Format>
HeadsArgs<typename B::Weight, typename Transformer<B, Format>::KV> Transformer<B, Format>::heads_args(std::int64_t index,
                                                                                                      const BatchPlan& plan) {
  const Layer& layer = weights_.layers[static_cast<std::size_t>(index)];
  Workspace& w = workspace_;
  const std::int64_t n = plan.num_tokens(), stride = spec_.num_kv_heads * spec_.head_dim;
  const auto output = [](const std::vector<float>& bias, std::vector<float>& out, const auto& weight) {
    return GemmOutput{.bias = data_or_null(bias), .out = out.data(), .out_stride = weight.rows};
  };
  return {.weights = {&layer.q, &layer.k, &layer.v},
          .outputs = {output(layer.q_bias, w.q, layer.q), output(layer.k_bias, w.k, layer.k), output(layer.v_bias, w.v, layer.v)},
          .norms = {norm_of_heads(layer.q_norm, w.q, n * spec_.num_q_heads), norm_of_heads(layer.k_norm, w.k, n * spec_.num_kv_heads)},
          .ropes = {rope_of_heads(index, plan, w.q, spec_.num_q_heads), rope_of_heads(index, plan, w.k, spec_.num_kv_heads)},
          .append = {.view = pool_.view(place_of(index).layer_in_page), .k = w.k.data(), .v = w.v.data(), .k_stride = stride,
                     .v_stride = stride, .slots = group_of(index, plan).write_slots.data(), .num_tokens = n,
                     .positions = plan.positions.data(), .key_bias = key_bias_of(index)}};
}

/// Queries, and keys and values in their pages.
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::project_heads(std::int64_t index, const BatchPlan& plan) {
  HeadsArgs<typename B::Weight, KV> args = heads_args(index, plan);
  HeadTimes times;
  if (profiler_.is_on()) args.times = &times;
  const Status status = profiler_.time(
      StepOperation::kQkv, [&] { return backend_.project_heads(input_, args); },
      [&] {
        OperationCost cost;
        for (const auto* weight : args.weights) cost += matmul_cost<B>(*weight, plan.num_tokens(), false);
        return cost;
      });
  list_parts_of_heads(args, times);
  return status;
}

template <Backend B, KVFormat Format>
void Transformer<B, Format>::list_parts_of_heads(const HeadsArgs<typename B::Weight, KV>& args, const HeadTimes& times) {
  if (args.times == nullptr) return;
  const std::int64_t n = args.append.num_tokens, num_heads = spec_.num_q_heads + spec_.num_kv_heads;
  const auto part = [&](StepOperation operation, std::int64_t time_ns, const OperationCost& cost) {
    profiler_.split(StepOperation::kQkv, operation, time_ns, cost);
  };
  if (times.norm_ns > 0) part(StepOperation::kNorm, times.norm_ns, rows_cost(n, num_heads * spec_.head_dim, 2));
  part(StepOperation::kRope, times.rope_ns, rows_cost(n, num_heads * spec_.rotary_dim, 2));
  part(StepOperation::kAppend, times.append_ns,
       {.bytes = float_bytes(n, 2 * spec_.num_kv_heads * spec_.head_dim) + n * bytes_per_key()});
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::attend(std::int64_t index, const BatchPlan& plan) {
  const PlannedGroup& group = group_of(index, plan);
  const KVTables tables{group.indptr.data(), group.block_ids.data(), plan.kv_lens.data(), plan.num_seqs()};
  const std::int64_t stride = spec_.num_q_heads * spec_.head_dim;
  PagedAttentionArgs<KV> args;
  args.q = workspace_.q.data();
  args.q_stride = stride;
  args.num_tokens = plan.num_tokens();
  args.num_q_heads = spec_.num_q_heads;
  args.seqs = plan.sequences.data();
  args.view = pool_.view(place_of(index).layer_in_page, tables);
  args.scale = spec_.attention_scale;
  args.window = spec_.layer_window_tokens(index);
  args.softcap = spec_.attention_soft_cap;
  args.key_bias = key_bias_of(index);
  args.out = workspace_.attention.data();
  args.out_stride = stride;
  return profiler_.time(
      StepOperation::kAttention, [&] { return backend_.paged_attention(args); },
      [&] { return attention_cost(spec_, plan, args.window, bytes_per_key()); });
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::feed_forward_block(const Layer& layer, std::int64_t num_tokens) {
  Workspace& w = workspace_;
  const bool as_codes = B::multiplies_codes(layer.gate) && B::multiplies_codes(layer.up);
  if (const Status status = prepare_normed(layer.ffn_norm, num_tokens, as_codes); !status.ok()) return status;
  const GatedRows rows{.gate = w.gate.data(), .up = w.up.data(), .stride = spec_.ffn_size, .activation = spec_.traits.activation,
                       .gate_bias = data_or_null(layer.gate_bias), .up_bias = data_or_null(layer.up_bias)};
  const Status gated = profiler_.time(
      StepOperation::kGateUp, [&] { return backend_.gated_matmul(layer.gate, layer.up, input_, rows, layer.down, gated_input_); },
      [&] {
        OperationCost cost = matmul_cost<B>(layer.gate, num_tokens, false);
        return cost += matmul_cost<B>(layer.up, num_tokens, false);
      });
  if (!gated.ok()) return gated;
  return add_block_output(StepOperation::kDown, layer.down, layer.down_bias, gated_input_, layer.post_ffn_norm, num_tokens);
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::norm(const std::vector<float>& weight, const float* x, float* out, std::int64_t num_rows,
                                    const float* residual) {
  const std::int64_t width = spec_.hidden_size;
  const RmsNormArgs args{.x = x, .x_stride = width, .weight = weight.data(), .residual = residual, .residual_stride = width, .out = out,
                         .out_stride = width, .num_rows = num_rows, .dim = width, .eps = spec_.norm_epsilon};
  return profiler_.time(
      StepOperation::kNorm, [&] { return backend_.rms_norm(args); }, [&] { return rows_cost(num_rows, width, 2); });
}

/// hidden += weight * x + bias, through a norm if the architecture has one there.
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::add_block_output(StepOperation operation, const typename B::Weight& weight, const std::vector<float>& bias,
                                                const typename B::Input& input, const std::vector<float>& post_norm,
                                                std::int64_t num_tokens) {
  float* hidden = workspace_.hidden.data();
  if (post_norm.empty()) return multiply(operation, weight, input, num_tokens, bias, hidden, true);
  float* block = workspace_.normed.data();
  if (const Status status = multiply(operation, weight, input, num_tokens, bias, block, false); !status.ok()) return status;
  return norm(post_norm, block, hidden, num_tokens, hidden);
}

/// Rows x [num_rows, cols] as the input of the next matrices. Normed rows, whose rounding makes most of the error, get the more exact
/// scales (docs/quality.md).
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::prepare(const float* x, std::int64_t num_rows, std::int64_t cols, GroupScale group_scale) {
  return profiler_.time(
      StepOperation::kQuantize, [&] { return backend_.prepare(x, cols, num_rows, cols, group_scale, input_); },
      [&] { return quantize_cost(num_rows, cols); });
}

/// The normed residual stream as the input of the next matrices, `as_codes` alone if they multiply codes.
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::prepare_normed(const std::vector<float>& weight, std::int64_t num_rows, bool as_codes) {
  const std::int64_t width = spec_.hidden_size;
  const RmsNormArgs args{.x = workspace_.hidden.data(), .x_stride = width, .weight = weight.data(),
                         .out = as_codes ? nullptr : workspace_.normed.data(), .out_stride = width, .num_rows = num_rows, .dim = width,
                         .eps = spec_.norm_epsilon, .group_scale = GroupScale::kSearched};
  return profiler_.time(
      StepOperation::kNormQuantize, [&] { return backend_.prepare_normed(args, input_); },
      [&] { return normed_cost(num_rows, width); });
}

/// out [num_rows, weight.rows] (+)= weight * input + bias [weight.rows] or empty
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::multiply(StepOperation operation, const typename B::Weight& weight, const typename B::Input& input,
                                        std::int64_t num_rows, const std::vector<float>& bias, float* out, bool accumulate) {
  return profiler_.time(
      operation, [&] { return backend_.matmul(weight, input, data_or_null(bias), out, weight.rows, accumulate); },
      [&] { return matmul_cost<B>(weight, num_rows, accumulate); });
}

}  // namespace kvpage::engine
