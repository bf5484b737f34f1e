/// \file RowsArgs, MatmulArgs, GateArgs, LookupArgs: what is done with weight matrices, as backends take it.
#pragma once

#include "engine/backend/step_operation.hpp"

#include <kvpage/base/types.hpp>
#include <kvpage/exec/gate_activation.hpp>
#include <kvpage/exec/quantized_rows.hpp>

#include <cstdint>

namespace kvpage::engine {

/// Activations that matrices are to be multiplied with.
struct RowsArgs {
  const float* x = nullptr;  // [num_rows, cols]
  std::int64_t stride = 0;   ///< floats from one row to the next
  std::int64_t num_rows = 0;
  std::int64_t cols = 0;
  GroupScale group_scale = GroupScale::kLargest;  ///< where the backend multiplies codes
};

/// out = weight * input + bias, or out += it.
template <class Weight, class Input>
struct MatmulArgs {
  StepOperation operation{};     ///< which product of a step it is, for reports
  const Weight* weight = nullptr;  // [rows, cols]
  const Input* input = nullptr;    // [num_rows, cols], from prepare
  const float* bias = nullptr;     // [weight.rows] or null
  float* out = nullptr;            // [num_rows, weight.rows]
  std::int64_t out_stride = 0;     ///< floats from one row to the next
  bool accumulate = false;
};

/// activation(gate * input + bias) * (up * input + bias) as the input of `next`.
template <class Weight, class Input>
struct GateArgs {
  const Weight* gate = nullptr;  // [ffn_size, cols]
  const Weight* up = nullptr;    // [ffn_size, cols]
  const Weight* next = nullptr;  // [rows, ffn_size], the matrix that reads the result
  const Input* input = nullptr;
  const float* gate_bias = nullptr;  // [ffn_size] or null
  const float* up_bias = nullptr;    // [ffn_size] or null
  GateActivation activation = GateActivation::kSilu;
  /// Where kernels that need them may keep the rows between gate, up and down. Null if all three matrices multiply codes and there are no
  /// biases.
  float* gate_rows = nullptr;  // [num_rows, ffn_size]
  float* up_rows = nullptr;    // [num_rows, ffn_size]
  std::int64_t stride = 0;     ///< floats from one of these rows to the next
};

/// out[i] = scale * row tokens[i] of the table.
template <class Weight>
struct LookupArgs {
  const Weight* table = nullptr;    // [vocab_size, hidden_size]
  const TokenId* tokens = nullptr;  // [num_tokens]
  std::int64_t num_tokens = 0;
  float scale = 1.0f;
  float* out = nullptr;             // [num_tokens, hidden_size]
};

}  // namespace kvpage::engine
