/// \file BackendTraits: what a backend may say of itself, and what holds if it does not.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/backend/indexed_task.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace kvpage::engine {

class PackedWeights;

/// Optional members of a backend, each with its default.
template <Backend B>
struct BackendTraits {
  using Weight = typename B::Weight;

  /// The host may read and write the backend's buffers.
  static constexpr bool kHostMemory = [] {
    if constexpr (requires { B::kHostMemory; }) return bool{B::kHostMemory};
    return false;
  }();
  /// Most threads that it works on.
  static constexpr int kMaxThreads = [] {
    if constexpr (requires { B::kMaxThreads; }) return int{B::kMaxThreads};
    return 1;
  }();
  /// Whether BackendConfig::isa means something to it.
  static constexpr bool kHasIsas = [] {
    if constexpr (requires { B::kHasIsas; }) return bool{B::kHasIsas};
    return false;
  }();
  /// What reports call the kernels of norms, rotations and activations.
  static constexpr std::string_view kVectorKernels = [] {
    if constexpr (requires { B::kVectorKernels; }) return std::string_view{B::kVectorKernels};
    return std::string_view{B::kName};
  }();

  static int num_threads(const B& backend) {
    if constexpr (requires { backend.num_threads(); }) return backend.num_threads();
    return 1;
  }
  /// The instruction set of its kernels; empty for kernels that know none.
  static std::string_view isa(const B& backend) {
    if constexpr (requires { backend.isa(); }) return backend.isa();
    return {};
  }
  /// LanguageModel::parallel.
  static void parallel(B& backend, std::int64_t n, const IndexedTask& body) {
    if constexpr (requires { backend.parallel(n, body); }) {
      backend.parallel(n, body);
    } else {
      for (std::int64_t i = 0; i < n; ++i) body(i);
    }
  }

  /// Bytes of a matrix in the backend's own form; 0: its kernels read the file's.
  static std::int64_t packed_weight_bytes(const WeightView& view) {
    if constexpr (requires { B::packed_weight_bytes(view); }) return B::packed_weight_bytes(view);
    return 0;
  }
  /// `fetch` was not called for this weight: the view's data is needed as long as the weight, and its scales were not checked.
  static bool reads_file(const Weight& weight) {
    if constexpr (requires { B::reads_file(weight); }) return B::reads_file(weight);
    return true;
  }
  /// Memory for all loads to come, the sum of packed_weight_bytes.
  static void reserve_weights(B& backend, std::int64_t bytes) {
    if constexpr (requires { backend.reserve_weights(bytes); }) backend.reserve_weights(bytes);
  }
  /// Where packed weights lie in host memory, for files of them; null: nowhere.
  static PackedWeights* packed_weights(B& backend) {
    if constexpr (requires { backend.packed_weights(); }) return backend.packed_weights();
    return nullptr;
  }
  /// The matrix, a view or a weight, is multiplied with activations in codes, and never reads them as floats.
  template <class Matrix>
  static bool multiplies_codes(const Matrix& matrix) {
    if constexpr (requires { B::multiplies_codes(matrix); }) return B::multiplies_codes(matrix);
    return false;
  }
  /// Bytes of a weight as its kernels read it.
  static std::int64_t weight_bytes(const Weight& weight) {
    if constexpr (requires { B::weight_bytes(weight); }) return B::weight_bytes(weight);
    else return weight.rows * weight.row_bytes;
  }
  /// What an input of so many rows takes besides the rows themselves.
  static std::int64_t planned_input_bytes(std::int64_t num_rows, std::int64_t cols) {
    if constexpr (requires { B::planned_input_bytes(num_rows, cols); }) return B::planned_input_bytes(num_rows, cols);
    return 0;
  }
  /// What all calls of paged_attention take.
  template <KVStorage KV>
  static std::int64_t planned_scratch_bytes(const KVDims& dims, std::int64_t num_q_heads, int num_threads) {
    if constexpr (requires { B::template planned_scratch_bytes<KV>(dims, num_q_heads, num_threads); })
      return B::template planned_scratch_bytes<KV>(dims, num_q_heads, num_threads);
    return 0;
  }

  /// The kernel that multiplies with this matrix.
  static std::string kernel_name(const WeightView& view) {
    if constexpr (requires { B::kernel_name(view); }) return B::kernel_name(view);
    return std::string(kVectorKernels);
  }
  /// Why the fast kernel cannot; empty: it does.
  static std::string slow_reason(const WeightView& view) {
    if constexpr (requires { B::slow_reason(view); }) return B::slow_reason(view);
    return {};
  }
  template <KVStorage KV>
  static std::string attention_slow_reason(const KVDims& dims) {
    if constexpr (requires { B::template attention_slow_reason<KV>(dims); }) return B::template attention_slow_reason<KV>(dims);
    return {};
  }
};

}  // namespace kvpage::engine
