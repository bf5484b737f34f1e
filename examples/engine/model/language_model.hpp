/// \file LanguageModel: a loaded model that runs steps, whatever its kernels and the precision of its cache.
#pragma once

#include "engine/backend/indexed_task.hpp"
#include "engine/backend/step_stats.hpp"
#include "engine/loader/load_error.hpp"
#include "engine/loader/progress.hpp"
#include "engine/model/cache_groups.hpp"
#include "engine/model/model_spec.hpp"

#include <kvpage/base/expected.hpp>
#include <kvpage/kernels/gemm/cpu_row_argmax.hpp>
#include <kvpage/kv/plan_bytes.hpp>
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
struct StepProfile;

/// Rows of one step unless ModelConfig says otherwise.
inline constexpr std::int64_t kDefaultStepTokens = 512;
/// Most rows that a step may be configured for: it bounds the workspace.
inline constexpr std::int64_t kMaxStepTokens = 8192;
/// Context unless asked otherwise (or the model's limit, if that is smaller).
inline constexpr std::int64_t kDefaultContextTokens = 8192;
/// Tokens per page of the KV pool unless ModelConfig says otherwise.
inline constexpr std::int64_t kDefaultBlockSize = 32;
/// Rows whose logits are computed at once unless ModelConfig says otherwise.
inline constexpr std::int64_t kDefaultLogitRows = 32;

/// How a model is loaded.
struct ModelConfig {
  std::string kernels = "cpu";  ///< one of backend_names()
  std::string kv_type;          ///< one of kv_type_names(); empty = the backend's default
  std::int64_t pool_tokens = 0; ///< longest sequence that the KV pool is made for; 0 = min(the model's limit, kDefaultContextTokens)
  std::int64_t num_seqs = 1;    ///< sequences of that length that it holds at one time
  std::int64_t pool_blocks = 0; ///< pages of the KV pool; 0 = what num_seqs such sequences need
  std::int64_t block_size = kDefaultBlockSize;  ///< tokens per page
  std::int64_t step_tokens = kDefaultStepTokens;
  std::int64_t logit_rows = kDefaultLogitRows;  ///< most rows whose logits one launch gives (an engine wants its most sequences per step)
  std::string isa;              ///< one of isa_names(); empty = the widest that this processor runs
  bool strict_kernels = false;  ///< refuse a model that some slow kernel would serve
  int num_threads = 0;          ///< 0 = CPUs that affinity and cgroup quota allow
  std::string packed_cache;     ///< folder for files of packed weights, see PackedCache; empty = each load packs them
  ProgressCallback progress;
  NoteCallback note;
};

/// Tokens of the longest sequence that `config` asks for.
inline std::int64_t pool_tokens_of(const ModelSpec& spec, const ModelConfig& config) {
  return config.pool_tokens > 0 ? config.pool_tokens : std::min(spec.context_limit_tokens, kDefaultContextTokens);
}

/// Rows of the logits buffer that `config` asks for: never more than a step has.
inline std::int64_t logit_rows_of(const ModelConfig& config) { return std::min(config.logit_rows, config.step_tokens); }

/// Which kernel serves a tensor, and what it costs.
struct KernelUse {
  std::string tensor;
  std::string operation;
  std::string kernel;
  std::string isa;          ///< instruction set; empty for kernels that know none
  std::int64_t bytes = 0;   ///< of the tensor as the kernel reads it, or per token of the KV cache
  std::string slow_reason;  ///< why the fast kernel cannot run it; empty = it runs
  bool in_file = false;     ///< the kernel reads the file's map
};

/// A model with its KV pool. Threads: one caller at a time.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const ModelSpec& spec() const = 0;
  /// The pool; num_layers = layers in a page.
  virtual const KVPoolShape& pool_shape() const = 0;
  /// Which layers share tables and pages, and their windows.
  virtual const CacheGroups& cache_groups() const = 0;
  /// What pages of this model must never be mixed with pages of another identity: digest of the file and KV layout. [<= 256 bytes]
  virtual std::span<const std::byte> cache_identity() const = 0;
  /// The bytes of a page where the host may read and change them, valid until the next call; changes count once `store_page` was called
  /// for the same page, before another one is fetched. For host tiers, and for tests that poison free pages. Requires: the page is
  /// inside the pool.
  virtual std::span<std::byte> fetch_page(BlockId block) = 0;
  virtual void store_page(BlockId block) = 0;
  /// Writes once to each memory page of a pool in host memory, on the model's workers: the system hands out memory at the first write.
  virtual void touch_pool() = 0;
  virtual std::string_view kv_type() const = 0;
  virtual std::int64_t page_bytes() const = 0;
  virtual std::int64_t step_tokens() const = 0;
  /// Tokens that one sequence may have: what was asked for, never more than the model's limit.
  virtual std::int64_t context_tokens() const = 0;
  /// Rows that one call of `logits` may ask for.
  virtual std::int64_t max_logit_rows() const = 0;
  virtual int num_threads() const = 0;
  /// Instruction set of the kernels; empty for kernels that know none.
  virtual std::string_view isa() const = 0;
  virtual std::vector<KernelUse> kernel_uses() const = 0;

  /// Runs a step: copies pages, writes the keys and values of its rows, keeps the final hidden state of its logit rows.
  /// Requires: validate(plan) holds, plan.num_tokens() <= step_tokens(), one plan group per cache group, blocks inside the pool,
  /// positions below context_tokens(). The plan's demotions were done before, by the owner of the host tier.
  /// Errors: a Status that names the kernel's objection; the pages of this step then hold unspecified values.
  virtual Status forward(const BatchPlan& plan) = 0;

  /// Logits of rows [first, first + count) of the last step's logit_rows. // [count, vocab_size]
  /// One launch of the output matrix. Requires: count <= max_logit_rows(). The span is valid until the next call.
  virtual Expected<std::span<const float>, Status> logits(std::int64_t first, std::int64_t count) = 0;

  /// The largest of each of these rows' logits, the lowest token among equal ones, or the first that is NaN or +infinity: all that a greedy
  /// draw asks of them. The logits themselves are stored only where a cap has to be applied first. Requires and valid as logits().
  virtual Expected<std::span<const RowArgmax>, Status> argmax(std::int64_t first, std::int64_t count) = 0;

  /// From the next step on, forward() keeps the residual stream behind each of these layers. Errors: ConfigError for a layer that the
  /// model does not have.
  virtual void keep_hidden(std::span<const std::int64_t> layers) = 0;
  /// That of one layer, all rows of the last step. // [num_tokens, hidden_size]
  /// Errors: a layer that is not kept. Valid as logits().
  virtual Expected<std::span<const float>, Status> hidden(std::int64_t layer) = 0;

  /// What the last forward() and the logits() after it launched.
  virtual StepStats step_stats() const = 0;

  /// Calls body(i) once for every i in [0, n), in any order, on the model's workers, the caller's thread among them; returns when all
  /// calls have returned. Requires: body neither throws nor calls the model.
  virtual void parallel(std::int64_t n, const IndexedTask& body) = 0;

  /// From the next step on, adds to `profile` what each operation takes; null = off, and what was collected is complete.
  virtual void profile_into(StepProfile* profile) = 0;
};

/// Implementations of the kernels, the default first.
std::vector<std::string> backend_names();
/// Instruction sets that a config may force, the narrowest first.
std::vector<std::string> isa_names();
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

/// The KV pool of a model loaded with `config`. An unknown kv_type counts as the backend's default, an unknown backend as the default.
KVPlan plan_kv_pool(const ModelSpec& spec, const ModelConfig& config);

/// Reads the model's sizes and switches. Errors: architecture unknown, key missing or inconsistent.
Expected<ModelSpec, LoadError> read_model_spec(const Gguf& file);

/// Whether every tensor that `spec` needs is there with its shape, and no other. Cost: reads names and vectors only.
Expected<void, LoadError> check_tensors(const Gguf& file, const ModelSpec& spec);

/// The kernels that `load_language_model(file, spec, config)` would use. Nothing is packed or run, so that any instruction set may be asked
/// for, also one that this processor lacks. Requires: check_tensors holds. Errors: a name that is unknown.
Expected<std::vector<KernelUse>, LoadError> plan_kernel_uses(const Gguf& file, const ModelSpec& spec, const ModelConfig& config);

/// What ModelConfig::strict_kernels asks for: the error names the first use that is slow, and why.
Expected<void, LoadError> require_fast_kernels(const Gguf& file, const std::vector<KernelUse>& uses);

/// Loads weights and allocates the pool. `file` must outlive the model; its tensor data only if a kernel use is `in_file`.
/// Errors: a tensor that is missing, has another shape, holds NaN or infinity, or is not used; a slow kernel where strict_kernels refuses
/// it; ConfigError for impossible settings (an isa that this processor cannot run names the missing feature); std::bad_alloc.
Expected<std::unique_ptr<LanguageModel>, LoadError> load_language_model(const Gguf& file, const ModelSpec& spec,
                                                                        const ModelConfig& config);

}  // namespace kvpage::engine
