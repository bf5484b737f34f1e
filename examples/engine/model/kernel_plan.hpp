/// \file plan_kernels: which kernel serves each tensor and operation of a file, known without loading it.
#pragma once

#include "engine/backend/backend_traits.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/model/language_model.hpp"
#include "engine/model/model_matrices.hpp"
#include "engine/model/transformer_cache.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace kvpage::engine {

/// Whether the rows between gate, up and down are kept as floats: some matrix wants floats where others take codes, or there are biases.
template <Backend B>
bool needs_gated_rows(const Gguf& file, const std::vector<ModelMatrix>& matrices) {
  const auto is_bias = [](const GgufTensor& tensor) {
    return tensor.name.ends_with(".ffn_gate.bias") || tensor.name.ends_with(".ffn_up.bias");
  };
  const auto wants_floats = [](const ModelMatrix& matrix) { return !BackendTraits<B>::multiplies_codes(matrix.view); };
  return std::any_of(file.tensors().begin(), file.tensors().end(), is_bias) || std::any_of(matrices.begin(), matrices.end(), wants_floats);
}

/// Norms, biases and the like as floats.
inline std::int64_t vector_bytes_of(const Gguf& file) {
  std::int64_t bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.is_vector()) bytes += tensor.num_elements() * static_cast<std::int64_t>(sizeof(float));
  }
  return bytes;
}

/// The kernels of backend B with instruction set `isa` (empty if B knows none).
template <Backend B, KVFormat Format>
std::vector<KernelUse> plan_kernels(const Gguf& file, const std::vector<ModelMatrix>& matrices, const TransformerCache& cache,
                                    std::string_view isa) {
  using KV = typename B::template KV<Format>;
  using Traits = BackendTraits<B>;
  std::vector<KernelUse> uses;
  for (const auto& [tensor, view] : matrices) {
    const std::int64_t packed = Traits::packed_weight_bytes(view);
    uses.push_back({tensor, "gemm", Traits::kernel_name(view), std::string(isa), packed > 0 ? packed : view.rows * view.row_bytes,
                    Traits::slow_reason(view), packed == 0});
  }
  const auto add = [&](std::string item, std::string operation, std::string kernel, std::int64_t bytes = 0, std::string reason = {}) {
    uses.push_back({std::move(item), std::move(operation), std::move(kernel), std::string(isa), bytes, std::move(reason), false});
  };
  const std::string vectors(Traits::kVectorKernels);
  add("token_embd.weight", "embedding", "rows decoded");
  add("norms and biases", "rms_norm", vectors, vector_bytes_of(file));
  for (const char* operation : {"rope", "activation"}) add("(activations)", operation, vectors);
  const KVDemand one_page{.context_tokens = cache.shape.block_size};
  const std::int64_t kv_bytes = plan_bytes<KV>(cache.shape, cache.groups.window_tokens, one_page).bytes_per_token;
  const std::string pages = std::string(Format::kName) + " pages, " + std::string(KV::Layout::kName);
  add("(KV cache)", "append_kv", pages, kv_bytes);
  add("(KV cache)", "paged_attention", pages, kv_bytes, Traits::template attention_slow_reason<KV>(cache.shape.dims()));
  add("(logits)", "sample", "integer weights");
  return uses;
}

}  // namespace kvpage::engine
