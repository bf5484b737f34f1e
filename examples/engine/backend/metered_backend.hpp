/// \file MeteredBackend: a backend around another one that counts and times what it launches.
#pragma once

#include "engine/backend/heads.hpp"
#include "engine/backend/operation_costs.hpp"
#include "engine/backend/step_meter.hpp"

#include <kvpage/kernels/gemm/cpu_row_argmax.hpp>

#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// Has the operations that the inner backend has, fused ones too.
template <Backend B>
class MeteredBackend {
 public:
  using Traits = BackendTraits<B>;
  using Buffer = typename B::Buffer;
  using Weight = typename B::Weight;
  using Input = typename B::Input;
  using DefaultKV = typename B::DefaultKV;
  template <KVFormat F>
  using KV = typename B::template KV<F>;
  static constexpr std::string_view kName = B::kName;
  static constexpr bool kHostMemory = Traits::kHostMemory;

  explicit MeteredBackend(B inner) : inner_(std::move(inner)) {}
  B& inner() noexcept { return inner_; }
  StepMeter& meter() noexcept { return meter_; }
  const StepMeter& meter() const noexcept { return meter_; }

  int num_threads() const { return Traits::num_threads(inner_); }
  std::string_view isa() const { return Traits::isa(inner_); }
  static bool multiplies_codes(const Weight& weight) { return Traits::multiplies_codes(weight); }
  static std::int64_t weight_bytes(const Weight& weight) { return Traits::weight_bytes(weight); }
  void parallel(std::int64_t n, const IndexedTask& body) {
    const auto run = [&] { return Traits::parallel(inner_, n, body), Status{}; };
    static_cast<void>(meter_.time(StepOperation::kSample, run, [] { return OperationCost{}; }));
  }

  Buffer allocate(std::int64_t bytes) { return inner_.allocate(bytes); }
  void upload(std::byte* to, std::span<const std::byte> bytes) { inner_.upload(to, bytes); }
  void download(const std::byte* from, std::span<std::byte> bytes) { inner_.download(from, bytes); }
  Expected<Weight, Status> load(const WeightView& view, const FetchCallback& fetch) { return inner_.load(view, fetch); }

  Status prepare(const RowsArgs& args, Input& input) {
    return meter_.time(
        StepOperation::kQuantize, [&] { return inner_.prepare(args, input); }, [&] { return quantize_cost(args.num_rows, args.cols); });
  }
  Status matmul(const MatmulArgs<Weight, Input>& args) {
    meter_.stats().add_gemm(weight_bytes(*args.weight));
    if (args.operation == StepOperation::kLogits) meter_.stats().logit_rows += args.input->num_rows();
    return meter_.time(
        args.operation, [&] { return inner_.matmul(args); },
        [&] { return matmul_cost<B>(*args.weight, args.input->num_rows(), args.accumulate); });
  }
  Status embedding(const LookupArgs<Weight>& args) {
    const auto cost = [&] {
      const std::int64_t row_bytes = weight_bytes(*args.table) / args.table->rows;
      return OperationCost{.bytes = args.num_tokens * row_bytes + float_bytes(args.num_tokens, args.table->cols)};
    };
    return meter_.time(StepOperation::kEmbedding, [&] { return inner_.embedding(args); }, cost);
  }
  Status rms_norm(const RmsNormArgs& args) {
    return meter_.time(
        StepOperation::kNorm, [&] { return inner_.rms_norm(args); }, [&] { return rows_cost(args.num_rows, args.dim, 2); });
  }
  Status rope(const RopeArgs& args) {
    return meter_.time(
        StepOperation::kRope, [&] { return inner_.rope(args); },
        [&] { return rows_cost(args.num_tokens, args.num_heads * args.rotary_dim, 2); });
  }
  Status glu(const GluArgs& args) {
    return meter_.time(
        StepOperation::kGateUp, [&] { return inner_.glu(args); }, [&] { return rows_cost(args.num_rows, args.dim, 1); });
  }
  Status soft_cap(const SoftCapArgs& args) {
    return meter_.time(
        StepOperation::kLogits, [&] { return inner_.soft_cap(args); }, [&] { return rows_cost(args.num_rows, args.dim, 1); });
  }
  template <KVStorage Storage>
  Status append_kv(const AppendKvArgs<Storage>& args) {
    return meter_.time(StepOperation::kAppend, [&] { return inner_.append_kv(args); }, [&] { return append_cost(args); });
  }
  template <KVStorage Storage>
  Status paged_attention(const PagedAttentionArgs<Storage>& args) {
    return attend(args, [&](const auto& with) { return inner_.paged_attention(with); });
  }
  template <KVStorage Storage>
  Status plan_attention(const PagedAttentionArgs<Storage>& args, std::vector<std::byte>& plan)
    requires requires(B& b) { b.plan_attention(args, plan); }
  {
    return inner_.plan_attention(args, plan);
  }
  template <KVStorage Storage>
  Status paged_attention(const PagedAttentionArgs<Storage>& args, std::span<const std::byte> plan)
    requires requires(B& b) { b.paged_attention(args, plan); }
  {
    return attend(args, [&](const auto& with) { return inner_.paged_attention(with, plan); });
  }
  template <KVStorage Storage>
  Status copy_blocks(const CopyBlocksArgs<Storage>& args) {
    return inner_.copy_blocks(args);
  }

  Status rope_table(const RopeTableArgs& args)
    requires requires(B& b) { b.rope_table(args); }
  {
    return meter_.time(
        StepOperation::kRope, [&] { return inner_.rope_table(args); },
        [&] { return OperationCost{.bytes = float_bytes(args.num_tokens, args.rotary_dim)}; });
  }
  Status prepare_normed(const RmsNormArgs& args, Input& input)
    requires requires(B& b) { b.prepare_normed(args, input); }
  {
    return meter_.time(
        StepOperation::kNormQuantize, [&] { return inner_.prepare_normed(args, input); },
        [&] { return normed_cost(args.num_rows, args.dim); });
  }
  template <class Args>
    requires requires(const B& b, const Args& args) { b.fuses(args); }
  bool fuses(const Args& args) const {
    return inner_.fuses(args);
  }
  template <KVStorage Storage>
  Status project_heads(HeadsArgs<Weight, Input, Storage> args)
    requires requires(B& b) { b.project_heads(args); }
  {
    HeadTimes times;
    if (meter_.takes_times()) args.times = &times;
    std::int64_t bytes = 0;
    for (const auto& product : args.products) bytes += weight_bytes(*product.weight);
    meter_.stats().add_gemm(bytes);
    const Status status = meter_.time(
        StepOperation::kQkv, [&] { return inner_.project_heads(args); }, [&] { return products_cost(args.products); });
    if (args.times != nullptr) list_parts_of_heads(args, times);
    return status;
  }
  Status gated_matmul(const GateArgs<Weight, Input>& args, Input& out)
    requires requires(B& b) { b.gated_matmul(args, out); }
  {
    meter_.stats().add_gemm(weight_bytes(*args.gate) + weight_bytes(*args.up));
    return meter_.time(
        StepOperation::kGateUp, [&] { return inner_.gated_matmul(args, out); },
        [&] {
          OperationCost cost = matmul_cost<B>(*args.gate, args.input->num_rows(), false);
          return cost += matmul_cost<B>(*args.up, args.input->num_rows(), false);
        });
  }
  bool has_argmax(const Weight& weight) const
    requires requires(const B& b) { b.has_argmax(weight); }
  {
    return inner_.has_argmax(weight);
  }
  Status argmax(const Weight& weight, const Input& input, std::span<RowArgmax> best)
    requires requires(B& b) { b.argmax(weight, input, best); }
  {
    const auto count = static_cast<std::int64_t>(best.size());
    meter_.stats().add_gemm(weight_bytes(weight));
    meter_.stats().logit_rows += count;
    return meter_.time(
        StepOperation::kLogits, [&] { return inner_.argmax(weight, input, best); },
        [&] {
          OperationCost cost = matmul_cost<B>(weight, count, false);
          cost.bytes -= float_bytes(count, weight.rows);
          return cost;
        });
  }

 private:
  template <KVStorage Storage, class Launch>
  Status attend(PagedAttentionArgs<Storage> args, const Launch& launch) {
    std::int64_t shared_tokens = 0;
    args.cascade_tokens = &shared_tokens;
    const Status status = meter_.time(
        StepOperation::kAttention, [&] { return launch(args); }, [&] { return attention_cost(args, meter_.plan()); });
    meter_.stats().add_attention(shared_tokens);
    return status;
  }

  OperationCost products_cost(const auto& products) const {
    OperationCost cost;
    for (const auto& product : products) cost += matmul_cost<B>(*product.weight, product.input->num_rows(), false);
    return cost;
  }

  template <KVStorage Storage>
  void list_parts_of_heads(const HeadsArgs<Weight, Input, Storage>& args, const HeadTimes& times) {
    const KVDims& dims = args.append.view.dims;
    const std::int64_t n = args.append.num_tokens, num_heads = args.ropes[kQueries].num_heads + dims.num_kv_heads;
    if (times.norm_ns > 0) {
      meter_.split(StepOperation::kQkv, StepOperation::kNorm, times.norm_ns, rows_cost(n, num_heads * dims.head_dim, 2));
    }
    meter_.split(StepOperation::kQkv, StepOperation::kRope, times.rope_ns, rows_cost(n, num_heads * args.ropes[kQueries].rotary_dim, 2));
    meter_.split(StepOperation::kQkv, StepOperation::kAppend, times.append_ns, append_cost(args.append));
  }

  B inner_;
  StepMeter meter_;
};

}  // namespace kvpage::engine
