/// \file load_transformer: a Transformer of one backend and KV format from a file.
#pragma once

#include "engine/backend/cpu_count.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/model/kernel_plan.hpp"
#include "engine/model/model_digest.hpp"
#include "engine/model/packed_cache.hpp"
#include "engine/model/packed_layout.hpp"
#include "engine/model/transformer.hpp"
#include "engine/model/weight_loader.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// Everything that a model is loaded from.
struct LoadRequest {
  const Gguf& file;
  const ModelSpec& spec;
  const ModelConfig& config;
};

using LoadResult = Expected<std::unique_ptr<LanguageModel>, LoadError>;

inline KVPoolShape pool_shape_of(const ModelSpec& spec, const ModelConfig& config, const CacheGroups& groups) {
  const KVDemand demand{.context_tokens = pool_tokens_of(spec, config), .num_seqs = config.num_seqs, .step_tokens = config.step_tokens};
  const std::int64_t wanted = blocks_per_seq(groups.window_tokens, config.block_size, demand) * demand.num_seqs;
  return {.num_layers = groups.layers_per_page, .num_kv_heads = spec.num_kv_heads, .head_dim = spec.head_dim,
          .block_size = config.block_size, .num_blocks = config.pool_blocks > 0 ? config.pool_blocks : wanted};
}

template <Backend B, KVFormat Format>
Expected<TransformerCache, LoadError> cache_of(const LoadRequest& request) {
  TransformerCache cache{.groups = make_cache_groups(request.spec, pool_tokens_of(request.spec, request.config))};
  cache.shape = pool_shape_of(request.spec, request.config, cache.groups);
  require_valid(cache.shape);
  auto digest = model_digest(request.file);
  if (!digest) return Unexpected{std::move(digest.error())};
  cache.template identify<typename B::template KV<Format>>(*digest);
  return cache;
}

/// The cache file that the config asks for, if the backend packs weights at all.
template <Backend B>
std::optional<PackedCache> packed_cache_of(const LoadRequest& request, B& backend, const LoadWork& work) {
  if (request.config.packed_cache.empty()) return std::nullopt;
  const PackedWeights* packed = BackendTraits<B>::packed_weights(backend);
  if (packed == nullptr || packed->memory().empty()) {
    work.say("packed cache: not used, because no weights are packed");
    return std::nullopt;
  }
  const std::string isa(BackendTraits<B>::isa(backend));
  const PackedCacheKey key{request.config.packed_cache, isa, packed_layout(request.file, request.spec)};
  return std::optional<PackedCache>(std::in_place, key, request.file, work);
}

/// The contract is load_language_model; the config's names of backend and KV type are not looked at.
template <Backend B, KVFormat Format>
LoadResult load_transformer(const LoadRequest& request) {
  auto cache = cache_of<B, Format>(request);
  if (!cache) return Unexpected{std::move(cache.error())};
  const int threads = request.config.num_threads > 0 ? request.config.num_threads : available_cpus();
  B backend(BackendConfig{.num_threads = threads, .isa = request.config.isa});
  const std::vector<ModelMatrix> matrices = model_matrices(request.file, request.spec);
  std::vector<KernelUse> uses = plan_kernels<B, Format>(request.file, matrices, *cache, BackendTraits<B>::isa(backend));
  if (request.config.strict_kernels) {
    if (auto fast = require_fast_kernels(request.file, uses); !fast) return Unexpected{std::move(fast.error())};
  }
  TensorReader tensors(request.file);
  WeightLoader<B> loader(backend, request.file, matrices, request.config.progress);
  const auto parallel = [&backend](std::int64_t n, const IndexedTask& body) { BackendTraits<B>::parallel(backend, n, body); };
  const LoadWork work{parallel, request.config.progress, request.config.note};
  std::optional<PackedCache> saved = packed_cache_of(request, backend, work);
  PackedWeights* packed = BackendTraits<B>::packed_weights(backend);
  const bool restored = saved && saved->restore(packed->memory());
  if (restored) packed->adopt();
  LoadedWeights<B> loaded{.gated_rows = needs_gated_rows<B>(request.file, matrices)};
  loaded.weights = TransformerWeightsReader<typename B::Weight, WeightLoader<B>>(request.spec, tensors, loader).read();
  if (auto complete = tensors.finish(); !complete) return Unexpected{std::move(complete.error())};
  if (auto finished = loader.finish(); !finished) return Unexpected{std::move(finished.error())};
  loaded.vectors = loader.take_vectors();
  if (saved && !restored) saved->store(packed->memory());
  return std::unique_ptr<LanguageModel>(std::make_unique<Transformer<B, Format>>(
      request.spec, request.config, std::move(*cache), std::move(backend), std::move(loaded), std::move(uses)));
}

}  // namespace kvpage::engine
