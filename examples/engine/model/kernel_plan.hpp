/// \file plan_kernels: which kernel serves each tensor and operation of a file, known without loading it.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/language_model.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/model/transformer_cache.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace kvpage::engine {

/// Whether some matrix of the file wants floats where others take codes: then the rows between gate, up and down are kept as floats.
template <Backend B>
bool needs_gated_rows(const Gguf& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [](const GgufTensor& tensor) { return !tensor.is_vector() && !B::multiplies_codes(tensor.view()); });
}

/// The kernels of backend B with instruction set `isa` (empty if B knows none).
template <Backend B, KVFormat Format>
std::vector<KernelUse> plan_kernels(const Gguf& file, const TransformerCache& cache, std::string_view isa) {
  using KV = typename B::template KV<Format>;
  std::vector<KernelUse> uses;
  std::int64_t vector_bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.is_vector()) {
      vector_bytes += tensor.num_elements() * static_cast<std::int64_t>(sizeof(float));
      continue;
    }
    const WeightView view = tensor.view();
    const std::int64_t packed = B::packed_weight_bytes(view);
    uses.push_back({std::string(tensor.name), "gemm", B::kernel_name(view), std::string(isa), packed > 0 ? packed : std::ssize(tensor.data),
                    B::slow_reason(view), packed == 0});
  }
  const auto add = [&](std::string item, std::string operation, std::string kernel, std::int64_t bytes = 0, std::string reason = {}) {
    uses.push_back({std::move(item), std::move(operation), std::move(kernel), std::string(isa), bytes, std::move(reason), false});
  };
  const std::string vectors(B::kVectorKernels);
  add("token_embd.weight", "embedding", "rows decoded");
  add("norms and biases", "rms_norm", vectors, vector_bytes);
  for (const char* operation : {"rope", "activation"}) add("(activations)", operation, vectors);
  const KVDemand one_page{.context_tokens = cache.shape.block_size};
  const std::int64_t kv_bytes = plan_bytes<KV>(cache.shape, cache.groups.window_tokens, one_page).bytes_per_token;
  const std::string pages = std::string(Format::kName) + " pages, " + std::string(KV::Layout::kName);
  add("(KV cache)", "append_kv", pages, kv_bytes);
  add("(KV cache)", "paged_attention", pages, kv_bytes, B::template attention_slow_reason<KV>(cache.shape.dims()));
  add("(logits)", "sample", "integer weights");
  return uses;
}

}  // namespace kvpage::engine
