#include "engine/language_model.hpp"

#include "engine/backend/backend_list.hpp"
#include "engine/backend/cpu_count.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/model/model_digest.hpp"
#include "engine/model/transformer.hpp"
#include "engine/model/weight_loader.hpp"

#include <kvpage/exec/isa.hpp>

#include <algorithm>
#include <optional>

namespace kvpage::engine {
namespace {

/// Everything that a model is loaded from.
struct LoadRequest {
  const Gguf& file;
  const ModelSpec& spec;
  const ModelConfig& config;
};

using LoadResult = Expected<std::unique_ptr<LanguageModel>, LoadError>;

KVPoolShape pool_shape_of(const ModelSpec& spec, const ModelConfig& config, const CacheGroups& groups) {
  const KVDemand demand{.context_tokens = pool_tokens_of(spec, config), .num_seqs = config.num_seqs, .step_tokens = config.step_tokens};
  const std::int64_t wanted = blocks_per_seq(groups.window_tokens, config.block_size, demand) * demand.num_seqs;
  return {.num_layers = groups.layers_per_page, .num_kv_heads = spec.num_kv_heads, .head_dim = spec.head_dim,
          .block_size = config.block_size, .num_blocks = config.pool_blocks > 0 ? config.pool_blocks : wanted};
}

/// The operations that are no matrix products: one line each.
template <Backend B, KVFormat Format>
void add_other_uses(const B& backend, const LoadRequest& request, const TransformerCache& cache, std::vector<KernelUse>& uses) {
  const std::string vectors = backend.vector_kernel_name();
  std::int64_t vector_bytes = 0;
  for (const GgufTensor& tensor : request.file.tensors()) {
    if (tensor.num_rows() == 1) vector_bytes += static_cast<std::int64_t>(tensor.data.size());
  }
  const KVDemand one_page{.context_tokens = cache.shape.block_size};
  const std::int64_t kv_bytes =
      plan_bytes<typename B::template KV<Format>>(cache.shape, cache.groups.window_tokens, one_page).bytes_per_token;
  const std::string pages = std::string(Format::kName) + " pages, " + std::string(B::template KV<Format>::Layout::kName);
  uses.push_back({"token_embd.weight", "embedding", "rows decoded", 0, {}});
  uses.push_back({"norms and biases", "rms_norm", vectors, vector_bytes, {}});
  for (const char* operation : {"rope", "activation"}) uses.push_back({"(activations)", operation, vectors, 0, {}});
  for (const char* operation : {"append_kv", "paged_attention"})
    uses.push_back({"(KV cache)", operation, pages + ", " + vectors, kv_bytes, {}});
  uses.push_back({"(logits)", "sample", "integer weights", 0, {}});
}

template <Backend B, KVFormat Format>
LoadResult load_with(const LoadRequest& request) {
  TransformerCache cache{.groups = make_cache_groups(request.spec, pool_tokens_of(request.spec, request.config))};
  cache.shape = pool_shape_of(request.spec, request.config, cache.groups);
  require_valid(cache.shape);
  cache.template identify<typename B::template KV<Format>>(model_digest(request.file));
  const int threads = request.config.num_threads > 0 ? request.config.num_threads : available_cpus();
  B backend(BackendConfig{.num_threads = threads, .isa = request.config.isa});
  TensorReader tensors(request.file);
  WeightLoader<B> loader(backend, request.file, request.config.progress);
  auto weights = TransformerWeightsReader<typename B::Weight, WeightLoader<B>>(request.spec, tensors, loader).read();
  if (auto complete = tensors.finish(); !complete) return Unexpected{std::move(complete.error())};
  auto uses = loader.finish();
  if (!uses) return Unexpected{std::move(uses.error())};
  add_other_uses<B, Format>(backend, request, cache, *uses);
  return std::unique_ptr<LanguageModel>(std::make_unique<Transformer<B, Format>>(
      request.spec, request.config, std::move(cache), std::move(backend), std::move(weights), std::move(*uses)));
}

/// Picks the KV format by name among those of the list.
template <Backend B>
LoadResult load_with_backend(const LoadRequest& request) {
  const std::string_view wanted = request.config.kv_type.empty() ? B::DefaultKV::kName : std::string_view(request.config.kv_type);
  LoadResult (*load)(const LoadRequest&) = nullptr;
  for_each_type(KVFormats{}, [&]<class Format>() {
    if (Format::kName == wanted) load = &load_with<B, Format>;
  });
  if (load == nullptr) {
    return Unexpected{request.file.error("KV type", "one of the known names", printable(request.config.kv_type), "see kvpage run --help")};
  }
  return load(request);
}

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for_each_type(Backends{}, [&]<class B>() { names.emplace_back(B::kName); });
  return names;
}

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const Isa isa : kAllIsas) names.emplace_back(isa_name(isa));
  return names;
}

std::vector<std::string> kv_type_names() {
  std::vector<std::string> names;
  for_each_type(KVFormats{}, [&]<class Format>() { names.emplace_back(Format::kName); });
  return names;
}

std::string default_kv_type(std::string_view backend) {
  std::string name;
  for_each_type(Backends{}, [&]<class B>() {
    if (B::kName == backend) name = B::DefaultKV::kName;
  });
  return name;
}

std::vector<KvTypeBytes> kv_bytes_per_token(const ModelSpec& spec, std::int64_t block_size) {
  std::vector<KvTypeBytes> types;
  for (std::string& name : kv_type_names()) {
    ModelConfig config;
    config.kv_type = name, config.block_size = block_size;
    types.push_back({std::move(name), plan_kv_pool(spec, config).bytes_per_token});
  }
  return types;
}

KVPlan plan_kv_pool(const ModelSpec& spec, const ModelConfig& config) {
  const CacheGroups groups = make_cache_groups(spec, pool_tokens_of(spec, config));
  const KVPoolShape shape = pool_shape_of(spec, config, groups);
  const KVDemand demand{.context_tokens = pool_tokens_of(spec, config), .num_seqs = config.num_seqs, .step_tokens = config.step_tokens};
  std::optional<KVPlan> plan;
  for_each_type(Backends{}, [&]<class B>() {
    for_each_type(KVFormats{}, [&]<class Format>() {
      const bool wanted = B::kName == config.kernels && (config.kv_type == Format::kName || Format::kName == B::DefaultKV::kName);
      if (wanted && (config.kv_type == Format::kName || !plan)) {
        plan = plan_bytes<typename B::template KV<Format>>(shape, groups.window_tokens, demand);
      }
    });
  });
  if (!plan) plan = plan_bytes<CpuKV<DefaultKVFormat>>(shape, groups.window_tokens, demand);
  plan->num_blocks = shape.num_blocks;
  plan->pool_bytes = shape.num_blocks * plan->page_bytes;
  // Places that no layer uses are padding.
  plan->payload_per_token = plan->payload_per_token / (groups.num_groups() * groups.layers_per_page) * spec.num_layers;
  return *plan;
}

Expected<void, LoadError> check_tensors(const Gguf& file, const ModelSpec& spec) {
  struct NoWeight {};
  const auto ignore = [](const std::string&, const WeightView&) { return NoWeight{}; };
  TensorReader tensors(file);
  static_cast<void>(TransformerWeightsReader<NoWeight, const decltype(ignore)>(spec, tensors, ignore).read());
  return tensors.finish();
}

LoadResult load_language_model(const Gguf& file, const ModelSpec& spec, const ModelConfig& config) {
  if (config.step_tokens < 1 || config.step_tokens > kMaxStepTokens) {
    throw_config_error("step_tokens is out of range", config.step_tokens, kMaxStepTokens, "tokens");
  }
  if (config.logit_rows < 1 || config.logit_rows > kMaxStepTokens) {
    throw_config_error("logit_rows is out of range", config.logit_rows, kMaxStepTokens, "rows");
  }
  if (!config.isa.empty() && !parse_isa(config.isa))
    return Unexpected{file.error("isa", "one of the known names", printable(config.isa), "see kvpage bench --help")};
  if (auto complete = check_tensors(file, spec); !complete) return Unexpected{std::move(complete.error())};
  const LoadRequest request{file, spec, config};
  LoadResult (*load)(const LoadRequest&) = nullptr;
  for_each_type(Backends{}, [&]<class B>() {
    if (B::kName == config.kernels) load = &load_with_backend<B>;
  });
  if (load == nullptr)
    return Unexpected{file.error("kernels", "one of the known names", printable(config.kernels), "see kvpage run --help")};
  return load(request);
}

}  // namespace kvpage::engine
