/// \file StepOperation: the parts of a step that reports name.
#pragma once

#include <array>
#include <cstdint>

namespace kvpage::engine {

/// A part of a step: a launch, or what a launch does besides (rope and append beside qkv). The two after the logits are not the model's:
/// what runs on its workers between two steps, and everything else there.
enum class StepOperation : std::uint8_t {
  kEmbedding, kNorm, kNormQuantize, kQuantize, kQkv, kRope, kAppend, kAttention, kOutput, kGateUp, kDown, kLogits, kSample, kCaller,
};

/// What reports call them, in the order of StepOperation.
inline constexpr std::array kStepOperationNames{"embedding", "norm", "norm_quantize", "quantize", "qkv", "rope", "append", "attention",
                                                "o", "gate_up", "down", "logits", "sample", "caller"};

}  // namespace kvpage::engine
