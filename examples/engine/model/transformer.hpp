/// \file Transformer: the one forward pass, for every architecture, backend and KV storage.
#pragma once

#include "engine/backend/launcher.hpp"
#include "engine/backend/metered_backend.hpp"
#include "engine/model/language_model.hpp"
#include "engine/model/rope_tables.hpp"
#include "engine/model/step_inputs.hpp"
#include "engine/model/transformer_cache.hpp"
#include "engine/model/transformer_weights.hpp"
#include "engine/model/workspace.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// Everything of a model that is loaded.
template <Backend B>
struct LoadedWeights {
  TransformerWeights<typename B::Weight> weights{};
  VectorStore<B> vectors{};
  bool gated_rows = false;  ///< some matrix wants the rows between gate, up and down as floats
};

/// A decoder-only transformer. What differs between architectures is data (ModelSpec), never code. Where its numbers lie is the backend's
/// business: it reads none of them.
template <Backend B, KVFormat Format>
class Transformer final : public LanguageModel {
 public:
  using KV = typename B::template KV<Format>;

  Transformer(const ModelSpec& spec, const ModelConfig& config, TransformerCache cache, B backend, LoadedWeights<B> loaded,
              std::vector<KernelUse> uses)
      : spec_(spec),
        step_tokens_(config.step_tokens),
        context_tokens_(pool_tokens_of(spec, config)),
        max_logit_rows_(logit_rows_of(config)),
        cache_(std::move(cache)),
        backend_(std::move(backend)),
        vectors_(std::move(loaded.vectors)),
        weights_(std::move(loaded.weights)),
        uses_(std::move(uses)),
        full_rope_(spec, spec.rope, weights_.rope_factors, bias_tokens(), store()),
        window_rope_(spec, spec.window_rope, spec.traits.window_rope_theta > 0 ? std::vector<float>{} : weights_.rope_factors,
                     spec.window_tokens > 0 ? bias_tokens() : 0, store()),
        workspace_shape_{step_tokens_, max_logit_rows_, loaded.gated_rows},
        workspace_memory_(backend_.allocate(Workspace::bytes(spec, workspace_shape_))),
        workspace_(Workspace::place(spec, workspace_shape_, workspace_memory_.span())),
        pool_memory_(backend_.allocate(pool_bytes<KV>(cache_.shape))),
        pool_(cache_.shape, pool_memory_.span()),
        attention_plans_(2 * static_cast<std::size_t>(cache_.groups.num_groups())),
        argmaxes_(static_cast<std::size_t>(max_logit_rows_)) {}

  const ModelSpec& spec() const override { return spec_; }
  const KVPoolShape& pool_shape() const override { return pool_.shape(); }
  const CacheGroups& cache_groups() const override { return cache_.groups; }
  std::span<const std::byte> cache_identity() const override { return cache_.identity; }
  std::span<std::byte> fetch_page(BlockId block) override;
  void store_page(BlockId block) override;
  void touch_pool() override;
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
  void keep_hidden(std::span<const std::int64_t> layers) override;
  Expected<std::span<const float>, Status> hidden(std::int64_t layer) override;
  StepStats step_stats() const override { return backend_.meter().stats(); }
  void parallel(std::int64_t n, const IndexedTask& body) override { backend_.parallel(n, body); }
  void profile_into(StepProfile* profile) override { backend_.meter().profile_into(profile); }

 private:
  using Metered = MeteredBackend<B>;
  using Traits = BackendTraits<Metered>;
  using Launches = Launcher<Metered>;
  using Weight = typename B::Weight;
  using Input = typename B::Input;
  using Layer = LayerWeights<Weight>;
  using Heads = HeadsArgs<Weight, Input, KV>;

  auto store() {
    return [this](std::span<const float> values) { return vectors_.add(backend_.inner(), values); };
  }
  /// Positions that the key bias must cover: none if no layer has one or the format keeps it.
  std::int64_t bias_tokens() const {
    const bool has_bias = std::any_of(weights_.layers.begin(), weights_.layers.end(), [](const Layer& l) { return !l.k_bias.empty(); });
    return takes_out_key_bias<KV> && has_bias ? context_tokens_ : 0;
  }

  Status check(const BatchPlan& plan) const;
  Status check_tables(const BatchPlan& plan) const;
  void make_rope_tables(Launches& run);
  void plan_attention(Launches& run);
  void run_layer(Launches& run, std::int64_t index);
  void add_block_output(Launches& run, StepOperation operation, const Weight& weight, StoredVector bias, const Input& input,
                        StoredVector post_norm);
  void keep_hidden_of(Launches& run, std::int64_t index);
  void keep_logit_rows(Launches& run, const BatchPlan& plan);
  void prepare_logits(Launches& run, std::int64_t first, std::int64_t count);
  void multiply_logits(Launches& run, std::int64_t first, std::int64_t count);

  RmsNormArgs norm_of_rows(StoredVector weight, const float* x, float* out, std::int64_t num_rows) const;
  RmsNormArgs norm_of_heads(StoredVector weight, float* heads, std::int64_t num_rows) const;
  RmsNormArgs norm_before(StoredVector weight, std::initializer_list<const Weight*> matrices) const;
  RopeArgs rope_of_heads(std::int64_t index, float* heads, std::int64_t num_heads) const;
  Heads heads_of(std::int64_t index) const;
  PagedAttentionArgs<KV> attention_of(std::int64_t index) const;
  GateArgs<Weight, Input> gate_of(const Layer& layer) const;
  KeyBias key_bias_of(std::int64_t index) const;

  Status check_logit_rows(std::int64_t first, std::int64_t count) const;
  const Weight& output_weight() const { return weights_.tied_output ? weights_.embedding : weights_.output; }
  bool has_window(std::int64_t layer) const { return spec_.layer_window_tokens(layer) > 0; }
  const RopeTables& rope_of(std::int64_t layer) const { return has_window(layer) ? window_rope_ : full_rope_; }
  const LayerPlace& place_of(std::int64_t layer) const { return cache_.groups.places[static_cast<std::size_t>(layer)]; }
  std::size_t group_index(std::int64_t layer) const { return static_cast<std::size_t>(place_of(layer).group); }
  /// Layers of one cache group and one window share a plan. A group has layers with and without a window where nobody outgrows it.
  std::size_t plan_index(std::int64_t layer) const { return 2 * group_index(layer) + (has_window(layer) ? 1 : 0); }
  /// Calls fn with the first layer of every such set.
  template <class Fn>
  void for_each_planned_layer(const Fn& fn) const {
    std::array<bool, 2 * static_cast<std::size_t>(kMaxCacheGroups)> seen{};
    for (std::int64_t layer = 0; layer < spec_.num_layers; ++layer) {
      if (!std::exchange(seen[plan_index(layer)], true)) fn(layer);
    }
  }
  const GroupInputs& group_of(std::int64_t layer) const { return inputs_.groups[group_index(layer)]; }
  std::int64_t q_width() const { return spec_.num_q_heads * spec_.head_dim; }

  /// Values of the backend's memory for the host: in place if it may read there, else in `copy`.
  template <class T>
  std::span<const T> host_values(const T* from, std::int64_t count, std::vector<T>& copy) {
    const auto size = static_cast<std::size_t>(count);
    if constexpr (Traits::kHostMemory) return {from, size};
    if (copy.size() < size) copy.resize(size);
    const std::span<T> values = std::span(copy).first(size);
    backend_.download(reinterpret_cast<const std::byte*>(from), std::as_writable_bytes(values));
    return values;
  }

  ModelSpec spec_;
  std::int64_t step_tokens_;
  std::int64_t context_tokens_;
  std::int64_t max_logit_rows_;
  TransformerCache cache_;
  Metered backend_;
  VectorStore<B> vectors_;
  TransformerWeights<Weight> weights_;
  std::vector<KernelUse> uses_;
  RopeTables full_rope_;
  RopeTables window_rope_;
  WorkspaceShape workspace_shape_;
  typename B::Buffer workspace_memory_;
  Workspace workspace_;
  typename B::Buffer pool_memory_;
  KVPool<KV> pool_;
  StepInputs<B> inputs_;
  std::vector<std::vector<std::byte>> attention_plans_;  // [2 * num_groups] of the step, by plan_index
  Input input_;        // of the matrices that come next
  Input gated_input_;  // of down
  std::int64_t num_tokens_ = 0;  // of the step
  std::int64_t num_logit_rows_ = 0;
  std::vector<std::int64_t> hidden_layers_;  // whose outputs are kept
  bool has_hidden_ = false;                  // a step has kept them
  typename B::Buffer hidden_memory_;         // [hidden_layers, step_tokens, hidden_size]
  std::vector<RowArgmax> argmaxes_;          // [max_logit_rows]
  std::vector<float> host_logits_, host_hidden_;
  std::vector<std::byte> host_page_;
  BlockId fetched_page_ = kNoBlock;  // whose bytes the caller has
};

/// The forward pass. Copies of shared pages come first: rows are appended behind what was copied.
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::forward(const BatchPlan& plan) {
  if (const Status status = check(plan); !status.ok()) return status;
  backend_.meter().begin_step(plan);
  inputs_.upload(backend_.inner(), plan);
  num_tokens_ = plan.num_tokens();
  Launches run(backend_);
  run.copy_blocks(CopyBlocksArgs<KV>{.pool = &pool_, .copies = inputs_.copies});
  run.embedding({&weights_.embedding, inputs_.tokens, num_tokens_, spec_.embedding_scale, workspace_.hidden});
  make_rope_tables(run);
  plan_attention(run);
  for (std::int64_t i = 0; i < spec_.num_layers; ++i) run_layer(run, i);
  keep_logit_rows(run, plan);
  has_hidden_ = run.status().ok();
  backend_.meter().end_forward();
  return run.status();
}

template <Backend B, KVFormat Format>
void Transformer<B, Format>::run_layer(Launches& run, std::int64_t index) {
  const Layer& layer = weights_.layers[static_cast<std::size_t>(index)];
  run.prepare_normed(norm_before(layer.attn_norm, {&layer.q, &layer.k, &layer.v}), input_);
  run.project_heads(heads_of(index));
  run.paged_attention(attention_of(index), attention_plans_[plan_index(index)]);
  run.prepare({workspace_.attention, q_width(), num_tokens_, q_width()}, input_);
  add_block_output(run, StepOperation::kOutput, layer.attn_output, layer.attn_output_bias, input_, layer.post_attn_norm);
  run.prepare_normed(norm_before(layer.ffn_norm, {&layer.gate, &layer.up}), input_);
  run.gated_matmul(gate_of(layer), gated_input_);
  add_block_output(run, StepOperation::kDown, layer.down, layer.down_bias, gated_input_, layer.post_ffn_norm);
  keep_hidden_of(run, index);
}

/// hidden += weight * input + bias, through a norm if the architecture has one there.
template <Backend B, KVFormat Format>
void Transformer<B, Format>::add_block_output(Launches& run, StepOperation operation, const Weight& weight, StoredVector bias,
                                              const Input& input, StoredVector post_norm) {
  float* hidden = workspace_.hidden;
  if (post_norm.empty()) return run.matmul({operation, &weight, &input, bias.data, hidden, weight.rows, true});
  run.matmul({operation, &weight, &input, bias.data, workspace_.normed, weight.rows, false});
  RmsNormArgs norm = norm_of_rows(post_norm, workspace_.normed, hidden, num_tokens_);
  norm.residual = hidden, norm.residual_stride = spec_.hidden_size;
  run.rms_norm(norm);
}

}  // namespace kvpage::engine

#include "engine/model/transformer_args.hpp"
#include "engine/model/transformer_outputs.hpp"
