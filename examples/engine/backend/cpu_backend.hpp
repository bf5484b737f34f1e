/// \file CpuBackend: the SIMD kernels on a pool of threads.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/backend/fused_heads.hpp"
#include "engine/model/mapped_memory.hpp"
#include "engine/model/packed_weights.hpp"

#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/activation/cpu.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/copy_blocks/cpu.hpp>
#include <kvpage/kernels/embedding/cpu.hpp>
#include <kvpage/kernels/gemm/cpu_packed_args.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kernels/rms_norm/cpu.hpp>
#include <kvpage/kernels/rope/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// Implements the backend concept of backend.hpp: weights in panels, activations as codes, all on one pool of threads.
class CpuBackend {
 public:
  static constexpr std::string_view kName = "cpu";
  static constexpr int kMaxThreads = ThreadPool::kMaxThreads;
  static constexpr bool kHasIsas = true;
  static constexpr std::string_view kVectorKernels = "16 lanes";
  using DefaultKV = DefaultKVFormat;
  template <KVFormat F>
  using KV = CpuKV<F>;

  using Weight = CpuWeight;  // its panels live as long as the backend

  /// Activations that several matrices read: as floats, and as codes.
  struct Input {
    GemmInput rows{};
    MappedMemory memory;
  };

  /// Errors: ConfigError for an isa that this processor cannot run.
  explicit CpuBackend(const BackendConfig& config)
      : cpu_(std::make_unique<Cpu>(CpuConfig{.num_threads = config.num_threads, .isa = parse_isa(config.isa)})) {}
  int num_threads() const noexcept { return cpu_->num_threads(); }
  std::string_view isa() const noexcept { return isa_name(cpu_->isa()); }
  StepStats& stats() noexcept { return stats_; }
  const StepStats& stats() const noexcept { return stats_; }
  void parallel(std::int64_t n, const IndexedTask& body) {
    cpu_->parallel_for(n, 1, [&body](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

  Expected<Weight, Status> load(const WeightView& view, const FetchCallback& fetch);
  static bool reads_file(const Weight& weight) { return weight.packed.data == nullptr; }
  static std::string kernel_name(const WeightView& view);
  static std::string slow_reason(const WeightView& view);
  static bool multiplies_codes(const WeightView& view);
  static bool multiplies_codes(const Weight& weight) { return weight.packed.data != nullptr && weight.packed.kernels->quantized_input; }
  template <KVStorage KV>
  static std::string attention_slow_reason(const KVDims& dims) {
    return std::string(paged_attention_slow_reason<KV>(dims));
  }
  static std::int64_t weight_bytes(const Weight& weight) {
    return weight.packed.data != nullptr ? weight.packed.bytes() : weight.plain.rows * weight.plain.row_bytes;
  }
  static std::int64_t packed_weight_bytes(const WeightView& view) { return engine::packed_weight_bytes(view); }
  void reserve_weights(std::int64_t num_bytes) { weights_.reserve(num_bytes); }
  PackedWeights* packed_weights() noexcept { return &weights_; }
  static std::int64_t planned_input_bytes(std::int64_t num_rows, std::int64_t cols) { return QuantizedRows::bytes_for(num_rows, cols); }
  template <KVStorage KV>
  static std::int64_t planned_scratch_bytes(const KVDims& dims, std::int64_t num_q_heads, int num_threads) {
    return paged_attention_scratch_bytes<KV>(num_threads, dims, num_q_heads);
  }

  Status prepare(const float* x, std::int64_t stride, std::int64_t num_rows, std::int64_t cols, GroupScale group_scale, Input& input);
  Status prepare_normed(RmsNormArgs args, Input& input);
  static bool has_argmax(const Weight& weight) { return weight.packed.data != nullptr; }
  Status argmax(const Weight& weight, const Input& input, std::span<RowArgmax> best);
  template <KVStorage KV>
  Status project_heads(const Input& input, const HeadsArgs<Weight, KV>& args);
  Status matmul(const Weight& weight, const Input& input, const float* bias, float* out, std::int64_t out_stride, bool accumulate);
  Status gated_matmul(const Weight& gate, const Weight& up, const Input& input, const GatedRows& rows, const Weight& next, Input& out);

  Status embedding(const EmbeddingArgs& args) { return kvpage::embedding(*cpu_, args); }
  Status rms_norm(const RmsNormArgs& args) { return kvpage::rms_norm(*cpu_, args); }
  Status rope_table(const RopeTableArgs& args) { return kvpage::rope_table(*cpu_, args); }
  Status rope(const RopeArgs& args) { return kvpage::rope(*cpu_, args); }
  Status soft_cap(const SoftCapArgs& args) { return kvpage::soft_cap(*cpu_, args); }
  template <KVStorage KV>
  Status append_kv(const AppendKvArgs<KV>& args) {
    return kvpage::append_kv(*cpu_, args);
  }
  template <KVStorage KV>
  Status paged_attention(PagedAttentionArgs<KV> args) {
    const std::int64_t bytes = paged_attention_scratch_bytes<KV>(*cpu_, args.view.dims, args.num_q_heads);
    args.scratch = aligned_scratch(bytes);
    std::int64_t shared_tokens = 0;
    args.cascade_tokens = &shared_tokens;
    const Status status = kvpage::paged_attention(*cpu_, args);
    stats_.add_attention(shared_tokens);
    return status;
  }
  template <KVStorage KV>
  Status copy_blocks(const CopyBlocksArgs<KV>& args) {
    return kvpage::copy_blocks(*cpu_, args);
  }

 private:
  static constexpr std::size_t kScratchAlignment = 64;

  static QuantizedRows place_rows(Input& input, std::int64_t num_rows, std::int64_t cols);

  std::span<std::byte> aligned_scratch(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    if (scratch_.size() < size + kScratchAlignment) scratch_.resize(size + kScratchAlignment);
    void* begin = scratch_.data();
    std::size_t space = scratch_.size();
    return {static_cast<std::byte*>(std::align(kScratchAlignment, size, begin, space)), size};
  }

  std::unique_ptr<Cpu> cpu_;  // workers hold its address
  PackedWeights weights_;
  std::vector<std::byte> scratch_;
  std::vector<std::int32_t> pending_heads_;  // of gemm_heads
  StepStats stats_;
};

template <KVStorage Storage>
Status CpuBackend::project_heads(const Input& input, const HeadsArgs<Weight, Storage>& args) {
  std::array<PackedWeight, 3> weights;
  std::int64_t num_outputs = 0, num_bytes = 0;
  for (std::size_t m = 0; m < weights.size(); ++m) {
    if (args.weights[m]->packed.data == nullptr) return project_heads_apart(*this, input, args);
    weights[m] = args.weights[m]->packed;
    num_outputs += weights[m].rows;
    num_bytes += weight_bytes(*args.weights[m]);
  }
  const FusedHeads<Weight, Storage> finish(*cpu_, args);
  if (const Status status = finish.validate(); !status.ok()) return status;
  const std::int64_t head_dim = args.append.view.dims.head_dim;
  const auto num_pending = static_cast<std::size_t>(input.rows.num_rows * (num_outputs / head_dim));
  if (pending_heads_.size() < num_pending) pending_heads_.resize(num_pending);
  stats_.add_gemm(num_bytes);
  const Status status = gemm_heads(*cpu_, {weights, input.rows, args.outputs}, {head_dim, pending_heads_}, finish);
  // Workers do these beside each other.
  if (args.times != nullptr) {
    for (auto* sum_ns : {&args.times->norm_ns, &args.times->rope_ns, &args.times->append_ns}) *sum_ns = *sum_ns / num_threads();
  }
  return status;
}

}  // namespace kvpage::engine
