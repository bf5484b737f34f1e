/// \file Transformer: the one forward pass, for every architecture, backend and KV storage.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/language_model.hpp"
#include "engine/model/mapped_memory.hpp"
#include "engine/model/rope_tables.hpp"
#include "engine/model/step_profiler.hpp"
#include "engine/model/transformer_cache.hpp"
#include "engine/model/transformer_costs.hpp"
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

  /// `gated_rows`: some matrix wants the rows between gate, up and down as floats.
  Transformer(const ModelSpec& spec, const ModelConfig& config, TransformerCache cache, B backend, Weights weights,
              std::vector<KernelUse> uses, bool gated_rows)
      : spec_(spec),
        step_tokens_(config.step_tokens),
        context_tokens_(pool_tokens_of(spec, config)),
        cache_(std::move(cache)),
        backend_(std::move(backend)),
        weights_(std::move(weights)),
        uses_(std::move(uses)),
        full_rope_(spec, spec.rope, weights_.rope_factors, bias_tokens()),
        window_rope_(spec, spec.window_rope, spec.traits.window_rope_theta > 0 ? std::vector<float>{} : weights_.rope_factors,
                     spec.window_tokens > 0 ? bias_tokens() : 0),
        workspace_(spec, step_tokens_, logit_rows_of(config), gated_rows),
        max_logit_rows_(logit_rows_of(config)),
        argmaxes_(static_cast<std::size_t>(max_logit_rows_)),
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
  Expected<std::span<const RowArgmax>, Status> argmax(std::int64_t first, std::int64_t count) override;
  StepStats step_stats() const override { return backend_.stats(); }
  void parallel(std::int64_t n, const IndexedTask& body) override;
  void profile_into(StepProfile* profile) override { profiler_.into(profile); }

 private:
  using Layer = LayerWeights<typename B::Weight>;

  /// Positions that the key bias must cover: none if no layer has one or the format keeps it.
  std::int64_t bias_tokens() const {
    const bool has_bias = std::any_of(weights_.layers.begin(), weights_.layers.end(), [](const Layer& l) { return !l.k_bias.empty(); });
    return takes_out_key_bias<KV> && has_bias ? context_tokens_ : 0;
  }

  Status embed(const BatchPlan& plan);
  Status run_layer(std::int64_t index, const BatchPlan& plan);
  Status attention_block(std::int64_t index, const BatchPlan& plan);
  Status make_rope_tables(const BatchPlan& plan);
  Status project_heads(std::int64_t index, const BatchPlan& plan);
  void list_parts_of_heads(const HeadsArgs<typename B::Weight, KV>& args, const HeadTimes& times);
  HeadsArgs<typename B::Weight, KV> heads_args(std::int64_t index, const BatchPlan& plan);
  RmsNormArgs norm_of_heads(const std::vector<float>& weight, std::vector<float>& heads, std::int64_t num_rows) const;
  RopeArgs rope_of_heads(std::int64_t index, const BatchPlan& plan, std::vector<float>& heads, std::int64_t num_heads) const;
  Status attend(std::int64_t index, const BatchPlan& plan);
  Status feed_forward_block(const Layer& layer, std::int64_t num_tokens);
  Status norm(const std::vector<float>& weight, const float* x, float* out, std::int64_t num_rows, const float* residual = nullptr);
  Status add_block_output(StepOperation operation, const typename B::Weight& weight, const std::vector<float>& bias,
                          const typename B::Input& input, const std::vector<float>& post_norm, std::int64_t num_tokens);
  Status prepare(const float* x, std::int64_t num_rows, std::int64_t cols, GroupScale group_scale);
  Status prepare_normed(const std::vector<float>& weight, std::int64_t num_rows, bool as_codes);
  Status multiply(StepOperation operation, const typename B::Weight& weight, const typename B::Input& input, std::int64_t num_rows,
                  const std::vector<float>& bias, float* out, bool accumulate);
  Status keep_logit_rows(const BatchPlan& plan);
  Status prepare_logits(std::int64_t first, std::int64_t count);
  const typename B::Weight& output_weight() const { return weights_.tied_output ? weights_.embedding : weights_.output; }

  bool has_window(std::int64_t layer) const { return spec_.layer_window_tokens(layer) > 0; }
  const RopeTables& rope_of(std::int64_t layer) const { return has_window(layer) ? window_rope_ : full_rope_; }
  KeyBias key_bias_of(std::int64_t index) const;
  /// Key and value of one token in one layer.
  std::int64_t bytes_per_key() const { return pool_.bytes_per_page() / cache_.shape.block_size / cache_.shape.num_layers; }
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
  std::vector<RowArgmax> argmaxes_;  // [max_logit_rows]
  MappedMemory pool_memory_;
  KVPool<KV> pool_;
  typename B::Input input_;
  typename B::Input gated_input_;
  StepProfiler profiler_;
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
  profiler_.begin_step(plan.num_tokens(), plan.num_seqs());
  const Status copied = backend_.copy_blocks(CopyBlocksArgs<KV>{.pool = &pool_, .copies = plan.copies});
  if (!copied.ok()) return copied;
  if (const Status status = embed(plan); !status.ok()) return status;
  if (const Status status = make_rope_tables(plan); !status.ok()) return status;
  for (std::int64_t i = 0; i < spec_.num_layers; ++i) {
    if (const Status status = run_layer(i, plan); !status.ok()) return status;
  }
  const Status kept = keep_logit_rows(plan);
  profiler_.end_forward();
  return kept;
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

/// Kept rows [first, first + count) as the input of the output matrix.
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::prepare_logits(std::int64_t first, std::int64_t count) {
  if (first < 0 || count < 0 || count > max_logit_rows_ || first > num_logit_rows_ - count) {
    return {StatusCode::kInvalidArgument, "logits of rows that the step did not keep, or of too many at once", first + count,
            num_logit_rows_};
  }
  backend_.stats().logit_rows += count;
  return prepare(workspace_.normed.data() + first * spec_.hidden_size, count, spec_.hidden_size, GroupScale::kSearched);
}

template <Backend B, KVFormat Format>
Expected<std::span<const RowArgmax>, Status> Transformer<B, Format>::argmax(std::int64_t first, std::int64_t count) {
  const std::span best = std::span(argmaxes_).first(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, max_logit_rows_)));
  // A cap may round different logits to equal ones; a bias is no part of the launch.
  if (!B::has_argmax(output_weight()) || spec_.logit_soft_cap > 0 || !weights_.output_bias.empty()) {
    const auto rows = logits(first, count);
    if (!rows) return Unexpected{rows.error()};
    backend_.parallel(count, [&](std::int64_t i) {
      best[static_cast<std::size_t>(i)] = row_argmax(rows->data() + i * spec_.vocab_size, spec_.vocab_size);
    });
    return std::span<const RowArgmax>(best);
  }
  if (const Status prepared = prepare_logits(first, count); !prepared.ok()) return Unexpected{prepared};
  const Status found = profiler_.time(
      StepOperation::kLogits, [&] { return backend_.argmax(output_weight(), input_, best); },
      [&] {
        OperationCost cost = matmul_cost<B>(output_weight(), count, false);
        cost.bytes -= float_bytes(count, spec_.vocab_size);
        return cost;
      });
  if (!found.ok()) return Unexpected{found};
  return std::span<const RowArgmax>(best);
}

template <Backend B, KVFormat Format>
Expected<std::span<const float>, Status> Transformer<B, Format>::logits(std::int64_t first, std::int64_t count) {
  if (const Status prepared = prepare_logits(first, count); !prepared.ok()) return Unexpected{prepared};
  float* out = workspace_.logits.data();
  const Status status = multiply(StepOperation::kLogits, output_weight(), input_, count, weights_.output_bias, out, false);
  if (!status.ok()) return Unexpected{status};
  if (spec_.logit_soft_cap > 0) {
    const Status capped = profiler_.time(
        StepOperation::kLogits,
        [&] {
          return backend_.soft_cap({.x = out, .x_stride = spec_.vocab_size, .num_rows = count, .dim = spec_.vocab_size,
                                    .cap = spec_.logit_soft_cap});
        },
        [&] { return rows_cost(count, spec_.vocab_size, 1); });
    if (!capped.ok()) return Unexpected{capped};
  }
  return std::span<const float>(out, static_cast<std::size_t>(count * spec_.vocab_size));
}

template <Backend B, KVFormat Format>
void Transformer<B, Format>::parallel(std::int64_t n, const IndexedTask& body) {
  static_cast<void>(profiler_.time(
      StepOperation::kSample,
      [&] {
        backend_.parallel(n, body);
        return Status{};
      },
      [] { return OperationCost{}; }));
}

}  // namespace kvpage::engine

#include "engine/model/transformer_layers.hpp"
