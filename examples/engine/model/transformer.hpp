/// \file Transformer: the one forward pass, for every architecture, backend and KV storage.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/language_model.hpp"
#include "engine/model/mapped_memory.hpp"
#include "engine/model/rope_tables.hpp"
#include "engine/model/transformer_cache.hpp"
#include "engine/model/transformer_weights.hpp"
#include "engine/model/workspace.hpp"

#include <kvpage/kernels/append_kv/args.hpp>
#include <kvpage/kernels/copy_blocks/args.hpp>
#include <kvpage/kernels/paged_attention/args.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// A decoder-only transformer. What differs between architectures is data (ModelSpec), never code.
template <Backend B, KVFormat Format>
class Transformer final : public LanguageModel {
 public:
  using KV = typename B::template KV<Format>;
  using Weights = TransformerWeights<typename B::Weight>;

  Transformer(const ModelSpec& spec, const ModelConfig& config, TransformerCache cache, B backend, Weights weights,
              std::vector<KernelUse> uses)
      : spec_(spec),
        step_tokens_(config.step_tokens),
        context_tokens_(pool_tokens_of(spec, config)),
        cache_(std::move(cache)),
        backend_(std::move(backend)),
        weights_(std::move(weights)),
        uses_(std::move(uses)),
        full_rope_(spec, spec.rope, weights_.rope_factors, bias_tokens()),
        window_rope_(spec, spec.window_rope, {}, spec.window_tokens > 0 ? bias_tokens() : 0),
        workspace_(spec, step_tokens_, logit_rows_of(config)),
        max_logit_rows_(logit_rows_of(config)),
        pool_memory_(pool_bytes<KV>(cache_.shape)),
        pool_(cache_.shape, pool_memory_.span()) {}

  const ModelSpec& spec() const override { return spec_; }
  const KVPoolShape& pool_shape() const override { return pool_.shape(); }
  const CacheGroups& cache_groups() const override { return cache_.groups; }
  std::span<const std::byte> cache_identity() const override { return cache_.identity; }
  std::span<std::byte> page(BlockId block) override { return pool_.page(block); }
  std::string_view kv_type() const override { return Format::kName; }
  std::int64_t page_bytes() const override { return pool_.bytes_per_page(); }
  std::int64_t step_tokens() const override { return step_tokens_; }
  std::int64_t context_tokens() const override { return context_tokens_; }
  std::int64_t max_logit_rows() const override { return max_logit_rows_; }
  int num_threads() const override { return backend_.num_threads(); }
  std::string_view isa() const override { return backend_.isa(); }
  std::vector<KernelUse> kernel_uses() const override { return uses_; }

  Status forward(const BatchPlan& plan) override;
  Expected<std::span<const float>, Status> logits(std::int64_t first, std::int64_t count) override;
  StepStats step_stats() const override { return backend_.stats(); }
  void parallel(std::int64_t n, const IndexedTask& body) override { backend_.parallel(n, body); }

 private:
  using Layer = LayerWeights<typename B::Weight>;

  /// Positions that the key bias must cover: none if no layer has one or the format keeps it.
  std::int64_t bias_tokens() const {
    const bool has_bias = !weights_.layers.front().k_bias.empty();
    return takes_out_key_bias<KV> && has_bias ? context_tokens_ : 0;
  }

  Status embed(const BatchPlan& plan);
  Status run_layer(std::int64_t index, const BatchPlan& plan);
  Status attention_block(std::int64_t index, const BatchPlan& plan);
  Status project_qkv(const Layer& layer, const BatchPlan& plan);
  Status normalise_heads(const std::vector<float>& weight, std::vector<float>& heads, std::int64_t num_heads, std::int64_t num_tokens);
  Status rotate(std::int64_t index, const BatchPlan& plan, std::vector<float>& heads, std::int64_t num_heads);
  Status append(std::int64_t index, const BatchPlan& plan);
  Status attend(std::int64_t index, const BatchPlan& plan);
  Status feed_forward_block(const Layer& layer, std::int64_t num_tokens);
  Status norm(const std::vector<float>& weight, const float* x, float* out, std::int64_t num_rows, const float* residual = nullptr);
  Status add_block_output(const typename B::Weight& weight, const float* x, std::int64_t cols, const std::vector<float>& post_norm,
                          std::int64_t num_tokens);
  Status keep_logit_rows(const BatchPlan& plan);

  const RopeTables& rope_of(std::int64_t layer) const {
    return spec_.layer_window_tokens(layer) > 0 ? window_rope_ : full_rope_;
  }
  KeyBias key_bias_of(std::int64_t index) const;
  const LayerPlace& place_of(std::int64_t layer) const { return cache_.groups.places[static_cast<std::size_t>(layer)]; }
  const PlannedGroup& group_of(std::int64_t layer, const BatchPlan& plan) const {
    return plan.groups[static_cast<std::size_t>(place_of(layer).group)];
  }

  ModelSpec spec_;
  std::int64_t step_tokens_;
  std::int64_t context_tokens_;
  TransformerCache cache_;
  B backend_;
  Weights weights_;
  std::vector<KernelUse> uses_;
  RopeTables full_rope_;
  RopeTables window_rope_;
  Workspace workspace_;
  std::int64_t max_logit_rows_;
  MappedMemory pool_memory_;
  KVPool<KV> pool_;
  typename B::Input input_;
  std::int64_t num_logit_rows_ = 0;
};

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::forward(const BatchPlan& plan) {
  if (plan.num_tokens() > step_tokens_)
    return {StatusCode::kCapacity, "a step has more tokens than the model was loaded for", plan.num_tokens(), step_tokens_};
  const auto num_groups = static_cast<std::int64_t>(plan.groups.size());
  if (num_groups != cache_.groups.num_groups())
    return {StatusCode::kInvalidArgument, "a plan has other cache groups than the model", num_groups, cache_.groups.num_groups()};
  backend_.stats() = {.rows = plan.num_tokens()};
  const Status copied = backend_.copy_blocks(CopyBlocksArgs<KV>{.pool = &pool_, .copies = plan.copies});
  if (!copied.ok()) return copied;
  if (const Status status = embed(plan); !status.ok()) return status;
  for (std::int64_t i = 0; i < spec_.num_layers; ++i) {
    if (const Status status = run_layer(i, plan); !status.ok()) return status;
  }
  return keep_logit_rows(plan);
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::embed(const BatchPlan& plan) {
  return backend_.embedding({.table = weights_.embedding, .tokens = plan.tokens.data(), .num_tokens = plan.num_tokens(),
                             .scale = spec_.embedding_scale, .out = workspace_.hidden.data(), .out_stride = spec_.hidden_size});
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
  if (const Status status = project_qkv(layer, plan); !status.ok()) return status;
  if (const Status status = normalise_heads(layer.q_norm, workspace_.q, spec_.num_q_heads, n); !status.ok()) return status;
  if (const Status status = normalise_heads(layer.k_norm, workspace_.k, spec_.num_kv_heads, n); !status.ok()) return status;
  if (const Status status = rotate(index, plan, workspace_.q, spec_.num_q_heads); !status.ok()) return status;
  if (const Status status = rotate(index, plan, workspace_.k, spec_.num_kv_heads); !status.ok()) return status;
  if (const Status status = append(index, plan); !status.ok()) return status;
  if (const Status status = attend(index, plan); !status.ok()) return status;
  return add_block_output(layer.attn_output, workspace_.attention.data(), spec_.num_q_heads * spec_.head_dim, layer.post_attn_norm, n);
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::project_qkv(const Layer& layer, const BatchPlan& plan) {
  const std::int64_t n = plan.num_tokens();
  if (const Status status = norm(layer.attn_norm, workspace_.hidden.data(), workspace_.normed.data(), n); !status.ok()) return status;
  const Status prepared = backend_.prepare(workspace_.normed.data(), spec_.hidden_size, n, spec_.hidden_size, input_);
  if (!prepared.ok()) return prepared;
  const auto project = [&](const auto& weight, const std::vector<float>& bias, std::vector<float>& out, std::int64_t num_heads) {
    return backend_.matmul(weight, input_, bias.empty() ? nullptr : bias.data(), out.data(), num_heads * spec_.head_dim, false);
  };
  if (const Status status = project(layer.q, layer.q_bias, workspace_.q, spec_.num_q_heads); !status.ok()) return status;
  if (const Status status = project(layer.k, layer.k_bias, workspace_.k, spec_.num_kv_heads); !status.ok()) return status;
  return project(layer.v, layer.v_bias, workspace_.v, spec_.num_kv_heads);
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::normalise_heads(const std::vector<float>& weight, std::vector<float>& heads, std::int64_t num_heads,
                                               std::int64_t num_tokens) {
  if (weight.empty()) return {};
  return backend_.rms_norm({.x = heads.data(), .x_stride = spec_.head_dim, .weight = weight.data(), .out = heads.data(),
                            .out_stride = spec_.head_dim, .num_rows = num_tokens * num_heads, .dim = spec_.head_dim,
                            .eps = spec_.norm_epsilon});
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::rotate(std::int64_t index, const BatchPlan& plan, std::vector<float>& heads, std::int64_t num_heads) {
  const RopeTables& rope = rope_of(index);
  return backend_.rope({.x = heads.data(), .token_stride = num_heads * spec_.head_dim, .num_tokens = plan.num_tokens(),
                        .num_heads = num_heads, .head_dim = spec_.head_dim, .rotary_dim = spec_.rotary_dim,
                        .positions = plan.positions.data(), .inv_freq = rope.inv_freq.data(), .pairing = spec_.traits.rope_pairing,
                        .magnitude = rope.magnitude});
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
Status Transformer<B, Format>::append(std::int64_t index, const BatchPlan& plan) {
  const std::int64_t stride = spec_.num_kv_heads * spec_.head_dim;
  return backend_.append_kv(AppendKvArgs<KV>{.view = pool_.view(place_of(index).layer_in_page), .k = workspace_.k.data(),
                                             .v = workspace_.v.data(), .k_stride = stride, .v_stride = stride,
                                             .slots = group_of(index, plan).write_slots.data(), .num_tokens = plan.num_tokens(),
                                             .positions = plan.positions.data(), .key_bias = key_bias_of(index)});
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
  return backend_.paged_attention(args);
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::feed_forward_block(const Layer& layer, std::int64_t num_tokens) {
  Workspace& w = workspace_;
  if (const Status status = norm(layer.ffn_norm, w.hidden.data(), w.normed.data(), num_tokens); !status.ok()) return status;
  const Status prepared = backend_.prepare(w.normed.data(), spec_.hidden_size, num_tokens, spec_.hidden_size, input_);
  if (!prepared.ok()) return prepared;
  const std::int64_t stride = spec_.ffn_size;
  if (const Status status = backend_.matmul(layer.gate, input_, nullptr, w.gate.data(), stride, false); !status.ok()) return status;
  if (const Status status = backend_.matmul(layer.up, input_, nullptr, w.up.data(), stride, false); !status.ok()) return status;
  const Status gated = backend_.glu({.gate = w.gate.data(), .gate_stride = stride, .up = w.up.data(), .up_stride = stride,
                                     .out = w.gate.data(), .out_stride = stride, .num_rows = num_tokens, .dim = stride,
                                     .activation = spec_.traits.activation});
  if (!gated.ok()) return gated;
  return add_block_output(layer.down, w.gate.data(), stride, layer.post_ffn_norm, num_tokens);
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::norm(const std::vector<float>& weight, const float* x, float* out, std::int64_t num_rows,
                                    const float* residual) {
  return backend_.rms_norm({.x = x, .x_stride = spec_.hidden_size, .weight = weight.data(), .residual = residual,
                            .residual_stride = spec_.hidden_size, .out = out, .out_stride = spec_.hidden_size, .num_rows = num_rows,
                            .dim = spec_.hidden_size, .eps = spec_.norm_epsilon});
}

/// hidden += weight * x, through a norm if the architecture has one there.
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::add_block_output(const typename B::Weight& weight, const float* x, std::int64_t cols,
                                                const std::vector<float>& post_norm, std::int64_t num_tokens) {
  if (const Status status = backend_.prepare(x, cols, num_tokens, cols, input_); !status.ok()) return status;
  float* hidden = workspace_.hidden.data();
  if (post_norm.empty()) return backend_.matmul(weight, input_, nullptr, hidden, spec_.hidden_size, true);
  float* block = workspace_.normed.data();
  if (const Status status = backend_.matmul(weight, input_, nullptr, block, spec_.hidden_size, false); !status.ok()) return status;
  return norm(post_norm, block, hidden, num_tokens, hidden);
}

/// Final norm of the rows that give logits, packed to the front of `normed`.
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::keep_logit_rows(const BatchPlan& plan) {
  num_logit_rows_ = static_cast<std::int64_t>(plan.logit_rows.size());
  const std::int64_t width = spec_.hidden_size;
  for (std::int64_t done = 0; done < num_logit_rows_;) {
    const std::int64_t row = plan.logit_rows[static_cast<std::size_t>(done)];
    std::int64_t count = 1;  // of neighbouring rows: one launch
    while (done + count < num_logit_rows_ && plan.logit_rows[static_cast<std::size_t>(done + count)] == row + count) ++count;
    const float* x = workspace_.hidden.data() + row * width;
    if (const Status status = norm(weights_.output_norm, x, workspace_.normed.data() + done * width, count); !status.ok()) return status;
    done += count;
  }
  return {};
}

template <Backend B, KVFormat Format>
Expected<std::span<const float>, Status> Transformer<B, Format>::logits(std::int64_t first, std::int64_t count) {
  if (first < 0 || count < 0 || count > max_logit_rows_ || first > num_logit_rows_ - count) {
    return Unexpected{Status{StatusCode::kInvalidArgument, "logits of rows that the step did not keep, or of too many at once", first + count,
                             num_logit_rows_}};
  }
  const float* x = workspace_.normed.data() + first * spec_.hidden_size;
  float* out = workspace_.logits.data();
  const Status prepared = backend_.prepare(x, spec_.hidden_size, count, spec_.hidden_size, input_);
  if (!prepared.ok()) return Unexpected{prepared};
  backend_.stats().logit_rows += count;
  const auto& weight = weights_.tied_output ? weights_.embedding : weights_.output;
  if (const Status status = backend_.matmul(weight, input_, nullptr, out, spec_.vocab_size, false); !status.ok()) return Unexpected{status};
  if (spec_.logit_soft_cap > 0) {
    const Status capped = backend_.soft_cap({.x = out, .x_stride = spec_.vocab_size, .num_rows = count, .dim = spec_.vocab_size,
                                             .cap = spec_.logit_soft_cap});
    if (!capped.ok()) return Unexpected{capped};
  }
  return std::span<const float>(out, static_cast<std::size_t>(count * spec_.vocab_size));
}

}  // namespace kvpage::engine
