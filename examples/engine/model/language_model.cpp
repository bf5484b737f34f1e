#include "engine/model/language_model.hpp"

#include "engine/backend/backend_list.hpp"
#include "engine/model/load_transformer.hpp"

#include <kvpage/exec/isa.hpp>

#include <algorithm>
#include <optional>

namespace kvpage::engine {
namespace {

/// Calls fn.operator()<B, Format>() with the backend and the KV format that the config names. Errors: an unknown name.
template <class Result, class Fn>
Expected<Result, LoadError> with_names(const LoadRequest& request, const Fn& fn) {
  const ModelConfig& config = request.config;
  const auto unknown = [&](const char* field, const std::string& name) {
    return Unexpected{request.file.error(field, "one of the known names", printable(name), "see kvpage run --help")};
  };
  if (!config.isa.empty() && !parse_isa(config.isa)) return unknown("isa", config.isa);
  const std::string default_kv = default_kv_type(config.kernels);
  if (default_kv.empty()) return unknown("kernels", config.kernels);
  const std::string& kv_type = config.kv_type.empty() ? default_kv : config.kv_type;
  std::optional<Expected<Result, LoadError>> result;
  for_each_type(Backends{}, [&]<class B>() {
    for_each_type(KVFormats{}, [&]<class Format>() {
      if (B::kName == config.kernels && Format::kName == kv_type) result.emplace(fn.template operator()<B, Format>());
    });
  });
  if (!result) return unknown("KV type", kv_type);
  return std::move(*result);
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
  if (auto complete = check_tensors(file, spec); !complete) return Unexpected{std::move(complete.error())};
  const LoadRequest request{file, spec, config};
  const auto load = [&]<Backend B, KVFormat Format>() { return load_transformer<B, Format>(request); };
  return with_names<std::unique_ptr<LanguageModel>>(request, load);
}

Expected<std::vector<KernelUse>, LoadError> plan_kernel_uses(const Gguf& file, const ModelSpec& spec, const ModelConfig& config) {
  const LoadRequest request{file, spec, config};
  const std::string best(isa_name(best_isa(detect_cpu_features())));
  return with_names<std::vector<KernelUse>>(request, [&]<Backend B, KVFormat Format>() -> Expected<std::vector<KernelUse>, LoadError> {
    const std::string isa = !BackendTraits<B>::kHasIsas ? "" : config.isa.empty() ? best : config.isa;
    auto cache = cache_of<B, Format>(request);
    if (!cache) return Unexpected{std::move(cache.error())};
    return plan_kernels<B, Format>(file, model_matrices(file, spec), *cache, isa);
  });
}

Expected<void, LoadError> require_fast_kernels(const Gguf& file, const std::vector<KernelUse>& uses) {
  const auto slow = std::find_if(uses.begin(), uses.end(), [](const KernelUse& use) { return !use.slow_reason.empty(); });
  if (slow == uses.end()) return {};
  return Unexpected{file.error(slow->tensor, slow->operation + " by a fast kernel", slow->kernel + ": " + slow->slow_reason,
                               "use another file or KV type, or do without strict kernels")};
}

}  // namespace kvpage::engine
