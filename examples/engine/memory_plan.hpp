/// \file MemoryPlan: what loading a model takes, known before anything is allocated.
#pragma once

#include "engine/language_model.hpp"

#include <cstdint>

namespace kvpage::engine {

/// Bytes by purpose.
struct MemoryPlan {
  std::int64_t weight_bytes = 0;     ///< in the form of the kernels; about the size of the file
  std::int64_t pool_bytes = 0;       ///< the KV pool, scales and padding included
  std::int64_t workspace_bytes = 0;  ///< activations of one step and logits
  std::int64_t total() const noexcept { return weight_bytes + pool_bytes + workspace_bytes; }
};

/// The plan of `load_language_model(file, spec, config)`. An unknown kv_type counts as the backend's default.
MemoryPlan plan_memory(const Gguf& file, const ModelSpec& spec, const ModelConfig& config);

/// What the system and this process's cgroup can still give; the largest number there is if neither says.
std::int64_t available_memory_bytes();

}  // namespace kvpage::engine
