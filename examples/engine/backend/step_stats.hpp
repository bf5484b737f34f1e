/// \file StepStats: what one step launched, counted where it is launched.
#pragma once

#include <cstdint>

namespace kvpage::engine {

/// Work of one forward pass and of the logits that were asked for after it. Launches and weight bytes depend on the model alone, never on
/// how many rows or sequences share the step: that is what makes a batch cheaper than its rows one by one.
struct StepStats {
  std::int64_t rows = 0;                ///< tokens of the step
  std::int64_t logit_rows = 0;          ///< rows whose logits were computed
  std::int64_t gemm_launches = 0;
  std::int64_t weight_bytes = 0;        ///< of the matrices of those launches, as the kernels read them
  std::int64_t attention_launches = 0;
  /// Key positions that sequences did not read, since others with the same pages did: of the layer that shared the most.
  std::int64_t cascade_tokens = 0;

  /// A launch that reads matrices of so many bytes.
  constexpr void add_gemm(std::int64_t bytes) noexcept { ++gemm_launches, weight_bytes += bytes; }
  constexpr void add_attention(std::int64_t shared_tokens) noexcept {
    ++attention_launches;
    if (shared_tokens > cascade_tokens) cascade_tokens = shared_tokens;
  }
  friend constexpr bool operator==(const StepStats&, const StepStats&) = default;
};

}  // namespace kvpage::engine
