/// \file MemoryPlan: what a loaded model takes, known before anything is allocated.
#pragma once

#include "engine/model/language_model.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <cstdint>

namespace kvpage::engine {

/// Most sequences that a plan is asked for.
inline constexpr std::int64_t kMaxPlannedSeqs = 65536;

/// Bytes by purpose, at the peak of a request that fills the KV pool.
struct MemoryPlan {
  std::int64_t weight_bytes = 0;     ///< matrices as the kernels read them, vectors as floats
  KVPlan kv;                         ///< pages of the KV pool and their bytes
  std::int64_t workspace_bytes = 0;  ///< activations of one step in both forms, logits, sampling
  std::int64_t worker_bytes = 0;     ///< attention scratch and stack of one worker
  int num_workers = 1;
  std::int64_t tokenizer_bytes = 0;
  std::int64_t process_bytes = 0;    ///< code, library state and small objects: the same for all models

  constexpr std::int64_t total_bytes() const noexcept {
    return weight_bytes + kv.pool_bytes + workspace_bytes + worker_bytes * num_workers + tokenizer_bytes + process_bytes;
  }
};

/// What a plan is made of: a file with what was read from its metadata. Tensor data is not touched.
struct PlannedModel {
  const Gguf& file;
  const ModelSpec& spec;
  const Tokenizer& tokenizer;
};

/// The plan of `load_language_model(file, spec, config)`. Unknown names count as the defaults. Requires: check_tensors holds.
/// Errors: ConfigError when a pool of this size cannot exist.
MemoryPlan plan_memory(const PlannedModel& model, const ModelConfig& config);

/// The longest context, up to the model's limit, whose plan stays within `memory_bytes`; 0 = none.
std::int64_t largest_context_tokens(const PlannedModel& model, ModelConfig config, std::int64_t memory_bytes);

/// The most sequences of the configured context whose plan stays within `memory_bytes`; 0 = none.
std::int64_t largest_num_seqs(const PlannedModel& model, ModelConfig config, std::int64_t memory_bytes);

}  // namespace kvpage::engine
