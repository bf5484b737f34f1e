/// \file ReferenceBackend: the oracle of every operation, loops in double; for checking, not for speed.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/backend/host_memory.hpp"

#include <kvpage/kernels/activation/reference.hpp>
#include <kvpage/kernels/append_kv/reference.hpp>
#include <kvpage/kernels/copy_blocks/reference.hpp>
#include <kvpage/kernels/embedding/reference.hpp>
#include <kvpage/kernels/gemm/reference.hpp>
#include <kvpage/kernels/paged_attention/reference.hpp>
#include <kvpage/kernels/rms_norm/reference.hpp>
#include <kvpage/kernels/rope/reference.hpp>
#include <kvpage/kv/kv_formats.hpp>

#include <string_view>

namespace kvpage::engine {

/// Computes with the reference kernels, on the caller's thread.
class ReferenceBackend : public HostMemory {
 public:
  static constexpr std::string_view kName = "reference";
  static constexpr std::string_view kVectorKernels = "double";
  using DefaultKV = ReferenceKVFormat;
  template <KVFormat F>
  using KV = PagedKV<F, TokenMajorLayout>;

  using Weight = WeightView;  // in the file
  /// Activations that several matrices read.
  struct Input {
    const float* x = nullptr;  // [rows, cols]
    std::int64_t stride = 0;
    std::int64_t rows = 0;

    std::int64_t num_rows() const noexcept { return rows; }
  };

  /// Errors: ConfigError when an isa is asked for.
  explicit ReferenceBackend(const BackendConfig& config) {
    if (!config.isa.empty()) throw_config_error("the reference kernels know no instruction sets: leave isa empty", 1, 0, "isa");
  }

  Expected<Weight, Status> load(const WeightView& view, const FetchCallback&) { return view; }
  Status prepare(const RowsArgs& args, Input& input) {
    input = {args.x, args.stride, args.num_rows};
    return {};
  }
  Status matmul(const MatmulArgs<Weight, Input>& args) {
    return reference::gemm({.weight = *args.weight, .x = args.input->x, .x_stride = args.input->stride, .num_rows = args.input->rows,
                            .bias = args.bias, .out = args.out, .out_stride = args.out_stride, .accumulate = args.accumulate});
  }
  Status embedding(const LookupArgs<Weight>& args) {
    return reference::embedding({.table = *args.table, .tokens = args.tokens, .num_tokens = args.num_tokens, .scale = args.scale,
                                 .out = args.out, .out_stride = args.table->cols}, kTablesChecked);
  }
  Status rms_norm(const RmsNormArgs& args) { return reference::rms_norm(args); }
  Status rope(const RopeArgs& args) { return reference::rope(args, kTablesChecked); }
  Status glu(const GluArgs& args) { return reference::glu(args); }
  Status soft_cap(const SoftCapArgs& args) { return reference::soft_cap(args); }
  template <KVStorage KV>
  Status append_kv(const AppendKvArgs<KV>& args) {
    return reference::append_kv(args, kTablesChecked);
  }
  template <KVStorage KV>
  Status paged_attention(const PagedAttentionArgs<KV>& args) {
    return reference::paged_attention(args, kTablesChecked);
  }
  template <KVStorage KV>
  Status copy_blocks(const CopyBlocksArgs<KV>& args) {
    return reference::copy_blocks(args, kTablesChecked);
  }
};

}  // namespace kvpage::engine
