/// \file The least that each operation of a step must do, for profiles.
#pragma once

#include "engine/backend/backend_traits.hpp"
#include "engine/backend/step_profile.hpp"

#include <kvpage/base/types.hpp>
#include <kvpage/exec/quantized_rows.hpp>
#include <kvpage/sched/batch_plan.hpp>

#include <algorithm>

namespace kvpage::engine {

/// Bytes of `num_rows` rows of `cols` floats.
constexpr std::int64_t float_bytes(std::int64_t num_rows, std::int64_t cols) noexcept {
  return num_rows * cols * static_cast<std::int64_t>(sizeof(float));
}

/// out[num_rows, N] (+)= x[num_rows, K] * weight[N, K]. Rows stay in caches, so they count once; the weights come from memory.
template <Backend B>
OperationCost matmul_cost(const typename B::Weight& weight, std::int64_t num_rows, bool accumulate) {
  const bool codes = BackendTraits<B>::multiplies_codes(weight);
  const std::int64_t macs = num_rows * weight.rows * weight.cols;
  const std::int64_t input = codes ? QuantizedRows::bytes_for(num_rows, weight.cols) : float_bytes(num_rows, weight.cols);
  return {.bytes = BackendTraits<B>::weight_bytes(weight) + input + float_bytes(num_rows, weight.rows) * (accumulate ? 2 : 1),
          .code_macs = codes ? macs : 0,
          .float_macs = codes ? 0 : macs};
}

/// Rows read and written once.
constexpr OperationCost rows_cost(std::int64_t num_rows, std::int64_t cols, std::int64_t macs_per_value) noexcept {
  return {.bytes = 2 * float_bytes(num_rows, cols), .float_macs = macs_per_value * num_rows * cols};
}

/// Rows read as floats and written as codes.
constexpr OperationCost quantize_cost(std::int64_t num_rows, std::int64_t cols) noexcept {
  return {.bytes = float_bytes(num_rows, cols) + QuantizedRows::bytes_for(num_rows, cols), .float_macs = num_rows * cols};
}

/// Rows normalised and quantised in one go.
constexpr OperationCost normed_cost(std::int64_t num_rows, std::int64_t cols) noexcept {
  OperationCost cost = quantize_cost(num_rows, cols);
  return cost += {.float_macs = 2 * num_rows * cols};
}

/// Key and value of one token in one layer, all heads.
template <KVStorage KV>
std::int64_t bytes_per_key(const KVDims& dims) noexcept {
  return KV::layer_map(dims).layer_bytes / dims.block_size;
}

/// Keys and values read as floats and written into pages.
template <KVStorage KV>
OperationCost append_cost(const AppendKvArgs<KV>& args) noexcept {
  const KVDims& dims = args.view.dims;
  return {.bytes = float_bytes(args.num_tokens, 2 * dims.num_kv_heads * dims.head_dim) + args.num_tokens * bytes_per_key<KV>(dims)};
}

/// Pairs of a row and a key that it sees, and keys that any row of a sequence sees.
struct KeyCounts {
  std::int64_t pairs = 0;
  std::int64_t keys = 0;
};

/// Of all sequences of a step; `window` 0 = none. Rows of a sequence follow each other in position.
inline KeyCounts visible_keys(const BatchPlan& plan, std::int64_t window) {
  KeyCounts visible;
  for (const QuerySpan& seq : plan.sequences) {
    const std::int64_t last = seq.first_pos + seq.q_count;
    const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, seq.first_pos - window + 1);
    visible.keys += last - first;
    for (std::int64_t position = seq.first_pos; position < last; ++position) {
      visible.pairs += window == 0 ? position + 1 : std::min(position + 1, window);
    }
  }
  return visible;
}

/// Scores and weighted sums of all query heads of a layer; every visible page of a sequence is read once.
template <KVStorage KV>
OperationCost attention_cost(const PagedAttentionArgs<KV>& args, const BatchPlan& plan) {
  const KeyCounts visible = visible_keys(plan, args.window);
  const std::int64_t width = args.num_q_heads * args.view.dims.head_dim;
  return {.bytes = visible.keys * bytes_per_key<KV>(args.view.dims) + 2 * float_bytes(plan.num_tokens(), width),
          .float_macs = 2 * visible.pairs * width};
}

}  // namespace kvpage::engine
