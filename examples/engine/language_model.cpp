#include "engine/language_model.hpp"

#include "engine/backend/backend_list.hpp"
#include "engine/backend/cpu_count.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/model/transformer.hpp"

#include <kvpage/cache/plan_bytes.hpp>

#include <algorithm>

namespace kvpage::engine {
namespace {

/// Everything that a model is loaded from.
struct LoadRequest {
  const Gguf& file;
  const ModelSpec& spec;
  const ModelConfig& config;
};

using LoadResult = Expected<std::unique_ptr<LanguageModel>, LoadError>;

KVPoolShape pool_shape_of(const ModelSpec& spec, const ModelConfig& config) {
  return {.num_layers = spec.num_layers, .num_kv_heads = spec.num_kv_heads, .head_dim = spec.head_dim,
          .block_size = config.block_size, .num_blocks = ceil_div(pool_tokens_of(spec, config), config.block_size)};
}

/// Brings matrices into the backend's form, one after the other, and writes down what was made of them.
template <Backend B>
class WeightLoader {
 public:
  WeightLoader(B& backend, const LoadRequest& request) : backend_(backend), request_(request) {}

  typename B::Weight operator()(const std::string& name, const WeightView& view) {
    auto weight = backend_.load(view);
    uses.push_back({name, "gemm", backend_.kernel_name(weight), B::weight_bytes(weight), backend_.slow_reason(weight)});
    done_bytes_ += view.rows * view.row_bytes;
    if (request_.config.progress) request_.config.progress({"loading", std::min(done_bytes_, total_bytes_), total_bytes_});
    return weight;
  }
  std::vector<KernelUse> uses;

 private:
  B& backend_;
  const LoadRequest& request_;
  std::int64_t done_bytes_ = 0;
  std::int64_t total_bytes_ = request_.file.file_bytes();
};

/// The operations that are no matrix products: one line each.
template <Backend B, KVFormat Format>
void add_other_uses(const B& backend, const LoadRequest& request, const KVPoolShape& shape, std::vector<KernelUse>& uses) {
  const std::string vectors = backend.vector_kernel_name();
  std::int64_t vector_bytes = 0;
  for (const GgufTensor& tensor : request.file.tensors()) {
    if (tensor.num_rows() == 1) vector_bytes += static_cast<std::int64_t>(tensor.data.size());
  }
  const std::int64_t kv_bytes = plan_bytes<typename B::template KV<Format>>(shape, shape.block_size).bytes_per_token;
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
  const KVPoolShape shape = pool_shape_of(request.spec, request.config);
  require_valid(shape);
  const int threads = request.config.num_threads > 0 ? request.config.num_threads : available_cpus();
  B backend(threads);
  TensorReader tensors(request.file);
  WeightLoader<B> loader(backend, request);
  auto weights = TransformerWeightsReader<typename B::Weight, WeightLoader<B>>(request.spec, tensors, loader).read();
  if (auto complete = tensors.finish(); !complete) return Unexpected{std::move(complete.error())};
  add_other_uses<B, Format>(backend, request, shape, loader.uses);
  return std::unique_ptr<LanguageModel>(std::make_unique<Transformer<B, Format>>(request.spec, request.config, shape, std::move(backend),
                                                                                 std::move(weights), std::move(loader.uses)));
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
  const KVPoolShape shape{.num_layers = spec.num_layers, .num_kv_heads = spec.num_kv_heads, .head_dim = spec.head_dim,
                          .block_size = block_size, .num_blocks = 1};
  std::vector<KvTypeBytes> types;
  for_each_type(KVFormats{}, [&]<class Format>() {
    types.push_back({std::string(Format::kName), plan_bytes<CpuKV<Format>>(shape, block_size).bytes_per_token});
  });
  return types;
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
  if (auto complete = check_tensors(file, spec); !complete) return Unexpected{std::move(complete.error())};
  if (auto finite = check_scales(file, config.progress); !finite) return Unexpected{std::move(finite.error())};
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
