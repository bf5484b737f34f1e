/// \file ReferenceBackend: the oracle of every operation, loops in double; for checking, not for speed.
#pragma once

#include "engine/backend/backend.hpp"

#include <kvpage/kernels/activation/reference.hpp>
#include <kvpage/kernels/append_kv/reference.hpp>
#include <kvpage/kernels/copy_blocks/reference.hpp>
#include <kvpage/kernels/embedding/reference.hpp>
#include <kvpage/kernels/gemm/reference.hpp>
#include <kvpage/kernels/paged_attention/reference.hpp>
#include <kvpage/kernels/rms_norm/reference.hpp>
#include <kvpage/kernels/rope/reference.hpp>
#include <kvpage/kv/kv_formats.hpp>

#include <string>
#include <string_view>

namespace kvpage::engine {

/// Implements the backend concept of backend.hpp with the reference kernels, on the caller's thread.
class ReferenceBackend {
 public:
  static constexpr std::string_view kName = "reference";
  static constexpr int kMaxThreads = 1;
  static constexpr bool kHasIsas = false;
  static constexpr std::string_view kVectorKernels = "double";
  using DefaultKV = ReferenceKVFormat;
  template <KVFormat F>
  using KV = PagedKV<F, TokenMajorLayout>;

  using Weight = WeightView;
  /// Activations that several matrices read.
  struct Input {
    const float* x = nullptr;  // [num_rows, cols]
    std::int64_t stride = 0;
    std::int64_t num_rows = 0;
  };

  /// Errors: ConfigError when an isa is asked for.
  explicit ReferenceBackend(const BackendConfig& config) {
    if (!config.isa.empty()) throw_config_error("the reference kernels know no instruction sets: leave isa empty", 1, 0, "isa");
  }
  int num_threads() const noexcept { return 1; }
  std::string_view isa() const noexcept { return {}; }
  StepStats& stats() noexcept { return stats_; }
  const StepStats& stats() const noexcept { return stats_; }
  void parallel(std::int64_t n, const IndexedTask& body) {
    for (std::int64_t i = 0; i < n; ++i) body(i);
  }

  Expected<Weight, Status> load(const WeightView& view, const FetchCallback&) { return view; }
  static bool reads_file(const Weight&) { return true; }
  static std::int64_t packed_weight_bytes(const WeightView&) { return 0; }
  void reserve_weights(std::int64_t /*num_bytes*/) {}
  PackedWeights* packed_weights() noexcept { return nullptr; }
  static std::int64_t planned_input_bytes(std::int64_t /*num_rows*/, std::int64_t /*cols*/) { return 0; }
  template <KVStorage KV>
  static std::int64_t planned_scratch_bytes(const KVDims&, std::int64_t /*num_q_heads*/, int /*num_threads*/) {
    return 0;
  }
  static std::string kernel_name(const WeightView&) { return "double"; }
  static std::string slow_reason(const WeightView&) { return {}; }  // asked for by name
  static bool multiplies_codes(const WeightView&) { return false; }
  template <KVStorage KV>
  static std::string attention_slow_reason(const KVDims&) {
    return {};
  }
  static std::int64_t weight_bytes(const Weight& weight) { return weight.rows * weight.row_bytes; }

  Status prepare(const float* x, std::int64_t stride, std::int64_t num_rows, std::int64_t /*cols*/, GroupScale, Input& input) {
    input = {x, stride, num_rows};
    return {};
  }
  Status prepare_normed(const RmsNormArgs& args, Input& input) {
    input = {args.out, args.out_stride, args.num_rows};
    return reference::rms_norm(args);
  }
  static bool has_argmax(const Weight&) { return false; }
  Status argmax(const Weight&, const Input&, std::span<RowArgmax>) {
    return {StatusCode::kInvalidArgument, "the reference kernels have no argmax: compare the outputs of matmul"};
  }
  template <KVStorage KV>
  Status project_heads(const Input& input, const HeadsArgs<Weight, KV>& args) {
    return project_heads_apart(*this, input, args);
  }
  Status matmul(const Weight& weight, const Input& input, const float* bias, float* out, std::int64_t out_stride, bool accumulate) {
    stats_.add_gemm(weight_bytes(weight));
    return reference::gemm({.weight = weight, .x = input.x, .x_stride = input.stride, .num_rows = input.num_rows, .bias = bias,
                            .out = out, .out_stride = out_stride, .accumulate = accumulate});
  }
  Status gated_matmul(const Weight& gate, const Weight& up, const Input& input, const GatedRows& rows, const Weight& /*next*/, Input& out) {
    if (const Status status = matmul(gate, input, rows.gate_bias, rows.gate, rows.stride, false); !status.ok()) return status;
    if (const Status status = matmul(up, input, rows.up_bias, rows.up, rows.stride, false); !status.ok()) return status;
    out = {rows.gate, rows.stride, input.num_rows};
    return reference::glu({.gate = rows.gate, .gate_stride = rows.stride, .up = rows.up, .up_stride = rows.stride, .out = rows.gate,
                           .out_stride = rows.stride, .num_rows = input.num_rows, .dim = gate.rows, .activation = rows.activation});
  }
  Status embedding(const EmbeddingArgs& args) { return reference::embedding(args); }
  Status rms_norm(const RmsNormArgs& args) { return reference::rms_norm(args); }
  Status rope_table(const RopeTableArgs&) { return {}; }  // angles stay double: rope computes its own
  Status rope(const RopeArgs& args) { return reference::rope(args); }
  Status soft_cap(const SoftCapArgs& args) { return reference::soft_cap(args); }
  template <KVStorage KV>
  Status append_kv(const AppendKvArgs<KV>& args) {
    return reference::append_kv(args);
  }
  template <KVStorage KV>
  Status paged_attention(const PagedAttentionArgs<KV>& args) {
    stats_.add_attention(0);
    return reference::paged_attention(args);
  }
  template <KVStorage KV>
  Status copy_blocks(const CopyBlocksArgs<KV>& args) {
    return reference::copy_blocks(args);
  }

 private:
  StepStats stats_;
};

}  // namespace kvpage::engine
