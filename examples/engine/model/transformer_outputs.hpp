/// \file What a Transformer gives its caller: logits, argmaxes, hidden states, pages.
#pragma once

#include "engine/model/transformer.hpp"

namespace kvpage::engine {

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::check(const BatchPlan& plan) const {
  if (plan.num_tokens() > step_tokens_)
    return {StatusCode::kCapacity, "a step has more tokens than the model was loaded for", plan.num_tokens(), step_tokens_};
  const auto num_groups = static_cast<std::int64_t>(plan.groups.size());
  if (num_groups != cache_.groups.num_groups())
    return {StatusCode::kInvalidArgument, "a plan has other cache groups than the model", num_groups, cache_.groups.num_groups()};
  return check_tables(plan);
}

/// What kernels would find in the step's tables, looked at here once, for all layers.
template <Backend B, KVFormat Format>
Status Transformer<B, Format>::check_tables(const BatchPlan& plan) const {
  const std::int64_t n = plan.num_tokens();
  const auto positions = plan.positions.data();
  Status status = validate_tables(CopyBlocksArgs<KV>{.pool = &pool_, .copies = plan.copies});
  if (status.ok()) status = validate_token_ids(plan.tokens.data(), n, weights_.embedding.rows);
  for (const RopeTables* rope : {&full_rope_, &window_rope_}) {
    const RopeTableArgs args{.positions = positions, .num_tokens = n, .inv_freq = rope->frequencies.data(), .rotary_dim = spec_.rotary_dim};
    if (status.ok()) status = validate_tables(args);
  }
  for_each_planned_layer([&](std::int64_t layer) {
    const PlannedGroup& group = plan.groups[group_index(layer)];
    const PagedKVView<KV> view = pool_.view(0, {group.indptr.data(), group.block_ids.data(), plan.kv_lens.data(), plan.num_seqs()});
    KeyBias key_bias;  // of any layer: they differ in values alone, but a layer may have none
    for (std::int64_t i = layer; i < spec_.num_layers && !key_bias; ++i) {
      if (plan_index(i) == plan_index(layer)) key_bias = key_bias_of(i);
    }
    const AppendKvArgs<KV> append{.view = view, .slots = group.write_slots.data(), .num_tokens = n, .positions = positions,
                                  .key_bias = key_bias};
    PagedAttentionArgs<KV> attention;
    attention.view = view, attention.num_tokens = n, attention.seqs = plan.sequences.data();
    attention.window = spec_.layer_window_tokens(layer), attention.key_bias = key_bias;
    if (status.ok()) status = validate_tables(append);
    if (status.ok()) status = validate_tables(attention);
  });
  return status;
}

/// Final norm of the rows that give logits, packed to the front of `normed`.
template <Backend B, KVFormat Format>
void Transformer<B, Format>::keep_logit_rows(Launches& run, const BatchPlan& plan) {
  num_logit_rows_ = static_cast<std::int64_t>(plan.logit_rows.size());
  const std::int64_t width = spec_.hidden_size;
  for (std::int64_t done = 0; done < num_logit_rows_;) {
    const std::int64_t row = plan.logit_rows[static_cast<std::size_t>(done)];
    std::int64_t count = 1;  // of neighbouring rows: one launch
    while (done + count < num_logit_rows_ && plan.logit_rows[static_cast<std::size_t>(done + count)] == row + count) ++count;
    run.rms_norm(norm_of_rows(weights_.output_norm, workspace_.hidden + row * width, workspace_.normed + done * width, count));
    done += count;
  }
}

template <Backend B, KVFormat Format>
Status Transformer<B, Format>::check_logit_rows(std::int64_t first, std::int64_t count) const {
  if (first >= 0 && count >= 0 && count <= max_logit_rows_ && first <= num_logit_rows_ - count) return {};
  return {StatusCode::kInvalidArgument, "logits of rows that the step did not keep, or of too many at once", first + count,
          num_logit_rows_};
}

/// Kept rows [first, first + count) as the input of the output matrix.
template <Backend B, KVFormat Format>
void Transformer<B, Format>::prepare_logits(Launches& run, std::int64_t first, std::int64_t count) {
  const std::int64_t width = spec_.hidden_size;
  run.prepare({workspace_.normed + first * width, width, count, width, GroupScale::kSearched}, input_);
}

template <Backend B, KVFormat Format>
void Transformer<B, Format>::multiply_logits(Launches& run, std::int64_t first, std::int64_t count) {
  const Weight& output = output_weight();
  prepare_logits(run, first, count);
  run.matmul({StepOperation::kLogits, &output, &input_, weights_.output_bias.data, workspace_.logits, output.rows});
  if (spec_.logit_soft_cap > 0) {
    run.soft_cap({.x = workspace_.logits, .x_stride = output.rows, .num_rows = count, .dim = output.rows, .cap = spec_.logit_soft_cap});
  }
}

template <Backend B, KVFormat Format>
Expected<std::span<const float>, Status> Transformer<B, Format>::logits(std::int64_t first, std::int64_t count) {
  if (const Status status = check_logit_rows(first, count); !status.ok()) return Unexpected{status};
  Launches run(backend_);
  multiply_logits(run, first, count);
  if (!run.status().ok()) return Unexpected{run.status()};
  return host_values(workspace_.logits, count * spec_.vocab_size, host_logits_);
}

template <Backend B, KVFormat Format>
Expected<std::span<const RowArgmax>, Status> Transformer<B, Format>::argmax(std::int64_t first, std::int64_t count) {
  if (const Status status = check_logit_rows(first, count); !status.ok()) return Unexpected{status};
  Launches run(backend_);
  // A cap may round different logits to equal ones; a bias is no part of the launch.
  if (run.has_argmax(output_weight()) && spec_.logit_soft_cap == 0 && weights_.output_bias.empty()) {
    prepare_logits(run, first, count);
    run.argmax(output_weight(), input_, {workspace_.argmaxes, static_cast<std::size_t>(count)});
    if (!run.status().ok()) return Unexpected{run.status()};
    return host_values(workspace_.argmaxes, count, argmaxes_);
  }
  const auto rows = logits(first, count);
  if (!rows) return Unexpected{rows.error()};
  backend_.parallel(count, [&](std::int64_t i) {
    argmaxes_[static_cast<std::size_t>(i)] = row_argmax(rows->data() + i * spec_.vocab_size, spec_.vocab_size);
  });
  return std::span<const RowArgmax>(argmaxes_).first(static_cast<std::size_t>(count));
}

template <Backend B, KVFormat Format>
void Transformer<B, Format>::keep_hidden(std::span<const std::int64_t> layers) {
  for (const std::int64_t layer : layers) {
    if (layer >= 0 && layer < spec_.num_layers) continue;
    throw_config_error("keep_hidden: the model has no such layer", layer, spec_.num_layers, "layers");
  }
  hidden_layers_.assign(layers.begin(), layers.end());
  has_hidden_ = false;
  const std::int64_t num_floats = std::ssize(layers) * step_tokens_ * spec_.hidden_size;
  hidden_memory_ = backend_.allocate(num_floats * static_cast<std::int64_t>(sizeof(float)));
}

template <Backend B, KVFormat Format>
void Transformer<B, Format>::keep_hidden_of(Launches& run, std::int64_t index) {
  for (std::size_t i = 0; i < hidden_layers_.size(); ++i) {
    if (hidden_layers_[i] != index) continue;
    auto* place = reinterpret_cast<float*>(hidden_memory_.span().data()) + static_cast<std::int64_t>(i) * step_tokens_ * spec_.hidden_size;
    run.copy(place, workspace_.hidden, num_tokens_ * spec_.hidden_size);
  }
}

template <Backend B, KVFormat Format>
Expected<std::span<const float>, Status> Transformer<B, Format>::hidden(std::int64_t layer) {
  const auto kept = std::find(hidden_layers_.begin(), hidden_layers_.end(), layer);
  if (kept == hidden_layers_.end() || !has_hidden_) {
    return Unexpected{Status{StatusCode::kInvalidArgument, "hidden: the step did not keep this layer", layer, spec_.num_layers}};
  }
  const std::int64_t before = (kept - hidden_layers_.begin()) * step_tokens_ * spec_.hidden_size;
  const auto* place = reinterpret_cast<const float*>(hidden_memory_.span().data()) + before;
  return host_values(place, num_tokens_ * spec_.hidden_size, host_hidden_);
}

template <Backend B, KVFormat Format>
std::span<std::byte> Transformer<B, Format>::fetch_page(BlockId block) {
  const std::span<std::byte> page = pool_.page(block);
  fetched_page_ = block;
  if constexpr (Traits::kHostMemory) return page;
  host_page_.resize(page.size());
  backend_.download(page.data(), host_page_);
  return host_page_;
}

template <Backend B, KVFormat Format>
void Transformer<B, Format>::store_page(BlockId block) {
  KVPAGE_ASSERT(block == fetched_page_, "the page that was fetched last is stored");
  if constexpr (!Traits::kHostMemory) backend_.upload(pool_.page(block).data(), host_page_);
}

template <Backend B, KVFormat Format>
void Transformer<B, Format>::touch_pool() {
  if constexpr (Traits::kHostMemory) {
    constexpr std::size_t kSystemPageBytes = 4096;
    backend_.parallel(cache_.shape.num_blocks, [this](std::int64_t block) {
      const auto page = pool_.page(BlockId{static_cast<std::uint32_t>(block)});
      for (std::size_t i = 0; i < page.size(); i += kSystemPageBytes) {
        volatile std::byte& byte = page[i];
        byte = std::byte{0};
      }
    });
  }
}

}  // namespace kvpage::engine
