/// \file Backend: what the transformer asks of the kernels, so that one forward pass serves every implementation.
#pragma once

#include "engine/backend/heads.hpp"
#include "engine/backend/indexed_task.hpp"
#include "engine/backend/step_stats.hpp"

#include <kvpage/base/error.hpp>
#include <kvpage/base/expected.hpp>
#include <kvpage/kernels/activation/args.hpp>
#include <kvpage/kernels/embedding/args.hpp>
#include <kvpage/kernels/gemm/cpu_row_argmax.hpp>
#include <kvpage/kernels/rms_norm/args.hpp>
#include <kvpage/kernels/rope/args.hpp>
#include <kvpage/quant/weight_view.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace kvpage::engine {

class PackedWeights;

/// How a backend works: `isa` is one of isa_names() or empty.
struct BackendConfig {
  int num_threads = 1;
  std::string_view isa{};
};

/// How the rows between gate, up and down are made, and where kernels that need them as floats may keep them.
struct GatedRows {
  float* gate = nullptr;    // [num_rows, ffn_size] or null
  float* up = nullptr;      // [num_rows, ffn_size] or null
  std::int64_t stride = 0;  ///< floats from one row to the next
  GateActivation activation = GateActivation::kSilu;
  const float* gate_bias = nullptr;  // [ffn_size] or null
  const float* up_bias = nullptr;    // [ffn_size] or null
};

/// Brings part of a weight's data from the file into memory, where it stays until the next call. Nothing: it cannot be read.
using FetchCallback = std::function<std::span<const std::byte>(std::span<const std::byte>)>;

/// An implementation of all operations. Each operation is one call with the args struct of its kernel folder; besides:
///  - `load(view, fetch)`: a weight matrix in the form its kernels read; `fetch` gives the view's data, each byte once. Errors: a scale
///    that is NaN or infinite, kCapacity, data that cannot be read. `reads_file(weight)`: `fetch` was not called, the view's data itself
///    is needed as long as the weight, and its scales were not checked;
///  - `reserve_weights(bytes)`: memory for all loads to come, the sum of `packed_weight_bytes(view)` (0: it stays in the file);
///    `packed_weights()`: where they go, null for a backend that packs nothing;
///  - `planned_input_bytes(num_rows, cols)`, `planned_scratch_bytes<KV>(dims, num_q_heads, num_threads)`: what an input and all
///    calls of paged_attention take;
///  - `prepare(x, stride, num_rows, cols, group_scale, input)`: activations in the form that `matmul` reads, once for all matrices
///    that share them; `group_scale` where that form is codes;
///  - `prepare_normed(args, input)`: the same of rms_norm's rows; `args.out` may be null if `multiplies_codes` holds for all these
///    matrices;
///  - `matmul(weight, input, bias or null, out, out_stride, accumulate)`;
///  - `project_heads(input, HeadsArgs)`: queries, and keys and values in their pages; in one launch or in several, with the same bits;
///  - `argmax(weight, input, best)` if `has_argmax(weight)`: the maximum of each row of `matmul`, which is not stored;
///  - `gated_matmul(gate, up, input, rows, next, out)`: activation(x * gate^T + bias) * (x * up^T + bias) as the input of `next`. The
///    buffers of `rows` may be null if `multiplies_codes` holds for all three and there are no biases;
///  - `isa()`: name of the instruction set, or empty; `stats()`: launches are counted there until the transformer starts anew;
///  - `parallel(n, body)`: LanguageModel::parallel;
///  - `kernel_name(view)`, `slow_reason(view)` (empty: it is not slow), `multiplies_codes(view or weight)`, `weight_bytes(weight)`,
///    `attention_slow_reason<KV>(dims)`, `kVectorKernels`, `kHasIsas`: what plans and reports are made of;
///  - `append_kv`, `paged_attention`, `copy_blocks` for any KVStorage; `KV<Format>` is the storage it prefers.
template <class B>
concept Backend = requires(B backend, typename B::Input& input, const typename B::Weight& weight, const WeightView& view, float* x,
                           std::int64_t n) {
  { B::kName } -> std::convertible_to<std::string_view>;
  { B::kMaxThreads } -> std::convertible_to<int>;
  typename B::DefaultKV;
  { backend.num_threads() } -> std::same_as<int>;  // at most kMaxThreads
  { backend.isa() } -> std::same_as<std::string_view>;
  { backend.stats() } -> std::same_as<StepStats&>;
  { backend.parallel(n, std::declval<const IndexedTask&>()) } -> std::same_as<void>;
  { backend.load(WeightView{}, FetchCallback{}) } -> std::same_as<Expected<typename B::Weight, Status>>;
  { B::reads_file(weight) } -> std::same_as<bool>;
  { B::packed_weight_bytes(WeightView{}) } -> std::same_as<std::int64_t>;
  { backend.reserve_weights(n) } -> std::same_as<void>;
  { backend.packed_weights() } -> std::same_as<PackedWeights*>;
  { B::planned_input_bytes(n, n) } -> std::same_as<std::int64_t>;
  { backend.prepare(x, n, n, n, GroupScale{}, input) } -> std::same_as<Status>;
  { backend.prepare_normed(RmsNormArgs{}, input) } -> std::same_as<Status>;
  { B::has_argmax(weight) } -> std::same_as<bool>;
  { backend.argmax(weight, input, std::span<RowArgmax>{}) } -> std::same_as<Status>;
  { backend.matmul(weight, input, x, x, n, true) } -> std::same_as<Status>;
  { backend.gated_matmul(weight, weight, input, GatedRows{}, weight, input) } -> std::same_as<Status>;
  { backend.embedding(EmbeddingArgs{}) } -> std::same_as<Status>;
  { backend.rms_norm(RmsNormArgs{}) } -> std::same_as<Status>;
  { backend.rope_table(RopeTableArgs{}) } -> std::same_as<Status>;
  { backend.rope(RopeArgs{}) } -> std::same_as<Status>;
  { backend.soft_cap(SoftCapArgs{}) } -> std::same_as<Status>;
  { B::kernel_name(view) } -> std::same_as<std::string>;
  { B::slow_reason(view) } -> std::same_as<std::string>;
  { B::multiplies_codes(view) } -> std::same_as<bool>;
  { B::multiplies_codes(weight) } -> std::same_as<bool>;
  { B::weight_bytes(weight) } -> std::same_as<std::int64_t>;
  { B::kVectorKernels } -> std::convertible_to<std::string_view>;
  { B::kHasIsas } -> std::convertible_to<bool>;
};

}  // namespace kvpage::engine
