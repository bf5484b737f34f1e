#include "engine/memory_plan.hpp"

#include "engine/backend/backend_list.hpp"
#include "engine/backend/cpu_count.hpp"
#include "engine/model/kernel_plan.hpp"
#include "engine/model/weight_loader.hpp"
#include "engine/model/workspace.hpp"

#include <kvpage/kernels/sample/cpu_scratch.hpp>

#include <algorithm>
#include <iterator>

namespace kvpage::engine {
namespace {

/// Code and constants that a request pages in, buffers of the standard library, what a load leaves in the heap: measured.
constexpr std::int64_t kProcessBytes = std::int64_t{8} << 20;
/// What kernels use of a worker's stack: measured.
constexpr std::int64_t kStackBytes = std::int64_t{64} << 10;

template <Backend B>
std::int64_t weight_bytes(const Gguf& file, const std::vector<ModelMatrix>& matrices) {
  std::int64_t bytes = vector_bytes_of(file) + packed_bytes_of<B>(matrices);
  for (const auto& [tensor, view] : matrices) {
    if (BackendTraits<B>::packed_weight_bytes(view) == 0) bytes += view.rows * view.row_bytes;  // read from the file's map
  }
  return bytes;
}

template <Backend B>
std::int64_t workspace_bytes(const PlannedModel& model, const std::vector<ModelMatrix>& matrices, const ModelConfig& config) {
  const ModelSpec& spec = model.spec;
  const std::int64_t widest = std::max(spec.hidden_size, spec.num_q_heads * spec.head_dim);
  const std::int64_t input_rows = std::min(config.step_tokens, pool_tokens_of(spec, config) * config.num_seqs);
  return Workspace::bytes(spec, {config.step_tokens, logit_rows_of(config), needs_gated_rows<B>(model.file, matrices)}) +
         BackendTraits<B>::planned_input_bytes(input_rows, widest) + BackendTraits<B>::planned_input_bytes(input_rows, spec.ffn_size);
}

template <Backend B, KVFormat Format>
void plan_with(const PlannedModel& model, const ModelConfig& config, MemoryPlan& plan) {
  using Traits = BackendTraits<B>;
  using KV = typename B::template KV<Format>;
  const KVDims dims{model.spec.num_kv_heads, model.spec.head_dim, config.block_size};
  const std::vector<ModelMatrix> matrices = model_matrices(model.file, model.spec);
  plan.weight_bytes = weight_bytes<B>(model.file, matrices);
  plan.workspace_bytes = workspace_bytes<B>(model, matrices, config);
  plan.num_workers = std::min(config.num_threads > 0 ? config.num_threads : available_cpus(), Traits::kMaxThreads);
  const auto scratch = Traits::template planned_scratch_bytes<KV>(dims, model.spec.num_q_heads, plan.num_workers);
  plan.worker_bytes = ceil_div(scratch, std::int64_t{plan.num_workers}) + sample_scratch_bytes(model.spec.vocab_size) + kStackBytes;
}

/// The largest value in [1, limit] that fits, or 0. Requires: what fits at a value fits at every smaller one.
template <class Fits>
std::int64_t largest_that_fits(std::int64_t limit, const Fits& fits) {
  std::int64_t low = 0;
  for (std::int64_t high = limit; low < high;) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

}  // namespace

MemoryPlan plan_memory(const PlannedModel& model, const ModelConfig& config) {
  MemoryPlan plan;
  plan.kv = plan_kv_pool(model.spec, config);
  plan.tokenizer_bytes = model.tokenizer.memory_bytes();
  plan.process_bytes = kProcessBytes;
  for_each_type(Backends{}, [&]<class B>() {
    if (B::kName != config.kernels) return;
    plan_with<B, typename B::DefaultKV>(model, config, plan);
    for_each_type(KVFormats{}, [&]<class Format>() {
      if (Format::kName == config.kv_type) plan_with<B, Format>(model, config, plan);
    });
  });
  return plan;
}

std::int64_t largest_context_tokens(const PlannedModel& model, ModelConfig config, std::int64_t memory_bytes) {
  return largest_that_fits(model.spec.context_limit_tokens, [&](std::int64_t context_tokens) {
    config.pool_tokens = context_tokens;
    return plan_memory(model, config).total_bytes() <= memory_bytes;
  });
}

std::int64_t largest_num_seqs(const PlannedModel& model, ModelConfig config, std::int64_t memory_bytes) {
  return largest_that_fits(kMaxPlannedSeqs, [&](std::int64_t num_seqs) {
    config.num_seqs = config.logit_rows = num_seqs;  // each of them draws a token
    return plan_memory(model, config).total_bytes() <= memory_bytes;
  });
}

}  // namespace kvpage::engine
