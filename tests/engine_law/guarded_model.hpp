/// \file Models on GuardedBackend. What they compute is that of the backends inside, bit by bit.
#pragma once

#include "engine/loader/gguf.hpp"
#include "engine/model/language_model.hpp"

#include <memory>

namespace kvpage_test {

/// config.kernels is cpu or reference, config.kv_type f16 or int8 (cpu), f32 (reference).
std::unique_ptr<kvpage::engine::LanguageModel> load_guarded(const kvpage::engine::Gguf& file, const kvpage::engine::ModelConfig& config);

/// What a planted fault touches without an operation.
enum class GuardedMemory { kNormWeight, kActivation, kPage, kTable, kLogits };

/// Reads one byte of it: of the last step that a guarded `cpu` model ran, whose model is still there.
void touch_guarded(GuardedMemory kind);

}  // namespace kvpage_test
