/// \file CpuBackend: the SIMD kernels on a pool of threads.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/backend/fused_heads.hpp"
#include "engine/backend/host_memory.hpp"
#include "engine/backend/indexed_task.hpp"
#include "engine/backend/packed_weights.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/activation/cpu.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/copy_blocks/cpu.hpp>
#include <kvpage/kernels/embedding/cpu.hpp>
#include <kvpage/kernels/gemm/cpu_packed_args.hpp>
#include <kvpage/kernels/gemm/cpu_row_argmax.hpp>
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

/// Weights in panels, activations as codes, all on one pool of threads.
class CpuBackend : public HostMemory {
 public:
  static constexpr std::string_view kName = "cpu";
  static constexpr int kMaxThreads = ThreadPool::kMaxThreads;
  static constexpr bool kHasIsas = true;
  static constexpr std::string_view kVectorKernels = "16 lanes";
  using DefaultKV = DefaultKVFormat;
  template <KVFormat F>
  using KV = CpuKV<F>;

  using Weight = CpuWeight;

  /// Activations that several matrices read: as floats, and as codes.
  struct Input {
    GemmInput rows{};
    MappedMemory memory;

    std::int64_t num_rows() const noexcept { return rows.num_rows; }
  };
  template <KVStorage KV>
  using Heads = HeadsArgs<Weight, Input, KV>;
  using Gate = GateArgs<Weight, Input>;

  /// Errors: ConfigError for an isa that this processor cannot run.
  explicit CpuBackend(const BackendConfig& config)
      : cpu_(std::make_unique<Cpu>(CpuConfig{.num_threads = config.num_threads, .isa = parse_isa(config.isa)})) {}
  int num_threads() const noexcept { return cpu_->num_threads(); }
  std::string_view isa() const noexcept { return isa_name(cpu_->isa()); }
  void parallel(std::int64_t n, const IndexedTask& body) {
    cpu_->parallel_for(n, 1, [&body](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

  Expected<Weight, Status> load(const WeightView& view, const FetchCallback& fetch);
  static bool reads_file(const Weight& weight) { return !is_packed(weight); }
  static std::string kernel_name(const WeightView& view);
  static std::string slow_reason(const WeightView& view);
  static bool multiplies_codes(const WeightView& view);
  static bool multiplies_codes(const Weight& weight) { return is_packed(weight) && weight.packed.kernels->quantized_input; }
  template <KVStorage KV>
  static std::string attention_slow_reason(const KVDims& dims) {
    return std::string(paged_attention_slow_reason<KV>(dims));
  }
  static std::int64_t weight_bytes(const Weight& weight) {
    return is_packed(weight) ? weight.packed.bytes() : weight.plain.rows * weight.plain.row_bytes;
  }
  static std::int64_t packed_weight_bytes(const WeightView& view) { return engine::packed_weight_bytes(view); }
  void reserve_weights(std::int64_t num_bytes) { weights_.reserve(num_bytes); }
  PackedWeights* packed_weights() noexcept { return &weights_; }
  static std::int64_t planned_input_bytes(std::int64_t num_rows, std::int64_t cols) { return QuantizedRows::bytes_for(num_rows, cols); }
  template <KVStorage KV>
  static std::int64_t planned_scratch_bytes(const KVDims& dims, std::int64_t num_q_heads, int num_threads) {
    return paged_attention_scratch_bytes<KV>(num_threads, dims, num_q_heads);
  }

  Status prepare(const RowsArgs& args, Input& input);
  Status prepare_normed(RmsNormArgs args, Input& input);
  Status matmul(const MatmulArgs<Weight, Input>& args);
  bool has_argmax(const Weight& weight) const { return is_packed(weight); }
  Status argmax(const Weight& weight, const Input& input, std::span<RowArgmax> best);
  /// One launch computes queries, keys and values, and its workers finish the heads.
  template <KVStorage KV>
  bool fuses(const Heads<KV>& args) const {
    return is_packed(*args.products[kQueries].weight) && is_packed(*args.products[kKeys].weight) &&
           is_packed(*args.products[kValues].weight);
  }
  template <KVStorage KV>
  Status project_heads(const Heads<KV>& args);
  /// Biases are rare: no kernel fuses them.
  bool fuses(const Gate& args) const {
    return args.gate_bias == nullptr && args.up_bias == nullptr && is_packed(*args.gate) && is_packed(*args.up);
  }
  Status gated_matmul(const Gate& args, Input& out);

  Status embedding(const LookupArgs<Weight>& args) {
    return kvpage::embedding(*cpu_, {.table = *args.table, .tokens = args.tokens, .num_tokens = args.num_tokens, .scale = args.scale,
                                     .out = args.out, .out_stride = args.table->cols}, kTablesChecked);
  }
  Status rms_norm(const RmsNormArgs& args) { return kvpage::rms_norm(*cpu_, args); }
  Status rope_table(const RopeTableArgs& args) { return kvpage::rope_table(*cpu_, args, kTablesChecked); }
  Status rope(const RopeArgs& args) { return kvpage::rope(*cpu_, args, kTablesChecked); }
  Status glu(const GluArgs& args) { return kvpage::glu(*cpu_, args); }
  Status soft_cap(const SoftCapArgs& args) { return kvpage::soft_cap(*cpu_, args); }
  template <KVStorage KV>
  Status append_kv(const AppendKvArgs<KV>& args) {
    return kvpage::append_kv(*cpu_, args, kTablesChecked);
  }
  template <KVStorage KV>
  Status paged_attention(PagedAttentionArgs<KV> args) {
    args.scratch = aligned_scratch(paged_attention_scratch_bytes<KV>(*cpu_, args.view.dims, args.num_q_heads));
    return kvpage::paged_attention(*cpu_, args, kTablesChecked);
  }
  /// Fills `plan` for the launches of a step with the block table and window of `args`.
  template <KVStorage KV>
  Status plan_attention(const PagedAttentionArgs<KV>& args, std::vector<std::byte>& plan) {
    plan.resize(static_cast<std::size_t>(paged_attention_plan_bytes(args.view.tables.num_seqs)));
    return plan_paged_attention(args, plan, kTablesChecked);
  }
  template <KVStorage KV>
  Status paged_attention(PagedAttentionArgs<KV> args, std::span<const std::byte> plan) {
    args.scratch = aligned_scratch(paged_attention_scratch_bytes<KV>(*cpu_, args.view.dims, args.num_q_heads));
    return kvpage::paged_attention(*cpu_, args, plan);
  }
  template <KVStorage KV>
  Status copy_blocks(const CopyBlocksArgs<KV>& args) {
    return kvpage::copy_blocks(*cpu_, args, kTablesChecked);
  }

 private:
  static bool is_packed(const Weight& weight) noexcept { return weight.packed.data != nullptr; }
  static QuantizedRows place_rows(Input& input, std::int64_t num_rows, std::int64_t cols);

  std::span<std::byte> aligned_scratch(std::int64_t bytes) {
    if (scratch_.size() < bytes) scratch_ = AlignedBytes(bytes);
    return scratch_.span().first(static_cast<std::size_t>(bytes));
  }

  std::unique_ptr<Cpu> cpu_;  // workers hold its address
  PackedWeights weights_;
  AlignedBytes scratch_;
  std::vector<std::int32_t> pending_heads_;  // of gemm_heads
};

template <KVStorage Storage>
Status CpuBackend::project_heads(const Heads<Storage>& args) {
  std::array<PackedWeight, 3> weights;
  std::array<GemmOutput, 3> outputs;
  std::int64_t num_outputs = 0;
  for (std::size_t m = 0; m < weights.size(); ++m) {
    const auto& product = args.products[m];
    weights[m] = product.weight->packed;
    outputs[m] = {.bias = product.bias, .out = product.out, .out_stride = product.out_stride, .accumulate = product.accumulate};
    num_outputs += weights[m].rows;
  }
  const FusedHeads<Weight, Input, Storage> finish(*cpu_, args);
  if (const Status status = finish.validate(); !status.ok()) return status;
  const GemmInput& rows = args.products[kQueries].input->rows;
  const std::int64_t head_dim = args.append.view.dims.head_dim;
  const auto num_pending = static_cast<std::size_t>(rows.num_rows * (num_outputs / head_dim));
  if (pending_heads_.size() < num_pending) pending_heads_.resize(num_pending);
  const Status status = gemm_heads(*cpu_, {weights, rows, outputs}, {head_dim, pending_heads_}, finish);
  // Workers do these beside each other.
  if (args.times != nullptr) {
    for (auto* sum_ns : {&args.times->norm_ns, &args.times->rope_ns, &args.times->append_ns}) *sum_ns = *sum_ns / num_threads();
  }
  return status;
}

}  // namespace kvpage::engine
