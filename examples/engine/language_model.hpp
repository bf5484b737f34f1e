/// \file LanguageModel: a loaded model that runs steps, whatever its kernels and the precision of its cache.
#pragma once

#include "engine/loader/load_error.hpp"
#include "engine/loader/progress.hpp"
#include "engine/model/model_spec.hpp"

#include <kvpage/base/expected.hpp>
#include <kvpage/cache/kv_pool.hpp>
#include <kvpage/sched/batch_plan.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

class Gguf;

/// Rows of one step unless ModelConfig says otherwise.
inline constexpr std::int64_t kDefaultStepTokens = 512;
/// Most rows that a step may be configured for: it bounds the workspace.
inline constexpr std::int64_t kMaxStepTokens = 8192;
/// Context unless asked otherwise (or the model's limit, if that is smaller).
inline constexpr std::int64_t kDefaultContextTokens = 8192;
/// Tokens per page of the KV pool unless ModelConfig says otherwise.
inline constexpr std::int64_t kDefaultBlockSize = 32;
/// Rows whose logits are computed at once: it bounds the logits buffer.
inline constexpr std::int64_t kMaxLogitRows = 32;

/// How a model is loaded.
struct ModelConfig {
  std::string kernels = "cpu";  ///< one of backend_names()
  std::string kv_type;          ///< one of kv_type_names(); empty = the backend's default
  std::int64_t pool_tokens = 0; ///< tokens that the KV pool holds; 0 = min(the model's limit, kDefaultContextTokens)
  std::int64_t block_size = kDefaultBlockSize;  ///< tokens per page
  std::int64_t step_tokens = kDefaultStepTokens;
  int num_threads = 0;          ///< 0 = CPUs that affinity and cgroup quota allow
  ProgressCallback progress;
};

/// Tokens of the pool that `config` asks for.
inline std::int64_t pool_tokens_of(const ModelSpec& spec, const ModelConfig& config) {
  return config.pool_tokens > 0 ? config.pool_tokens : std::min(spec.context_limit_tokens, kDefaultContextTokens);
}

/// Which kernel serves a tensor, and what it costs.
struct KernelUse {
  std::string tensor;
  std::string operation;
  std::string kernel;
  std::int64_t bytes = 0;   ///< of the tensor, or per token of the KV cache
  std::string slow_reason;  ///< why the fast kernel cannot run it; empty = it runs
};

/// A model with its KV pool. Threads: one caller at a time.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const ModelSpec& spec() const = 0;
  virtual const KVPoolShape& pool_shape() const = 0;
  virtual std::string_view kv_type() const = 0;
  virtual std::int64_t page_bytes() const = 0;
  virtual std::int64_t step_tokens() const = 0;
  /// Tokens that one sequence may have: what was asked for, never more than the model's limit.
  virtual std::int64_t context_tokens() const = 0;
  virtual int num_threads() const = 0;
  virtual std::vector<KernelUse> kernel_uses() const = 0;

  /// Runs a step: copies pages, writes the keys and values of its rows, keeps the final hidden state of its logit rows.
  /// Requires: validate(plan) holds, plan.num_tokens() <= step_tokens(), blocks inside the pool.
  /// Errors: a Status that names the kernel's objection; the pages of this step then hold unspecified values.
  virtual Status forward(const BatchPlan& plan) = 0;

  /// Logits of rows [first, first + count) of the last step's logit_rows. // [count, vocab_size]
  /// Requires: count <= kMaxLogitRows. The span is valid until the next call.
  virtual Expected<std::span<const float>, Status> logits(std::int64_t first, std::int64_t count) = 0;
};

/// Implementations of the kernels, the default first.
std::vector<std::string> backend_names();
/// Precisions of the KV cache.
std::vector<std::string> kv_type_names();
/// The KV precision of a backend unless another one is asked for; empty for an unknown backend.
std::string default_kv_type(std::string_view backend);

/// What one token costs in a KV cache of one precision.
struct KvTypeBytes {
  std::string name;
  std::int64_t bytes_per_token = 0;  ///< all layers, scales and padding included
};

/// The cost of a token of `spec` in every precision. Requires: block_size > 0.
std::vector<KvTypeBytes> kv_bytes_per_token(const ModelSpec& spec, std::int64_t block_size);

/// Reads the model's sizes and switches. Errors: architecture unknown, key missing or inconsistent.
Expected<ModelSpec, LoadError> read_model_spec(const Gguf& file);

/// Whether every tensor that `spec` needs is there with its shape, and no other. Cost: reads names and vectors only.
Expected<void, LoadError> check_tensors(const Gguf& file, const ModelSpec& spec);

/// Loads weights and allocates the pool. `file` must outlive the model. Errors: a tensor that is missing, has another
/// shape, holds NaN or infinity, or is not used; ConfigError for impossible settings; std::bad_alloc.
Expected<std::unique_ptr<LanguageModel>, LoadError> load_language_model(const Gguf& file, const ModelSpec& spec,
                                                                        const ModelConfig& config);

}  // namespace kvpage::engine
