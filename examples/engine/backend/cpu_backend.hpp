/// \file CpuBackend: the SIMD kernels on a pool of threads.
#pragma once

#include <kvpage/cache/kv_formats.hpp>
#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/activation/cpu.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/copy_blocks/cpu.hpp>
#include <kvpage/kernels/embedding/cpu.hpp>
#include <kvpage/kernels/gemm/cpu.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kernels/rms_norm/cpu.hpp>
#include <kvpage/kernels/rope/cpu.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// Implements the backend concept of backend.hpp.
class CpuBackend {
 public:
  static constexpr std::string_view kName = "cpu";
  using DefaultKV = DefaultKVFormat;
  template <KVFormat F>
  using KV = CpuKV<F>;

  using Weight = WeightView;
  /// Activations that several matrices read.
  struct Input {
    const float* x = nullptr;  // [num_rows, cols]
    std::int64_t stride = 0;
    std::int64_t num_rows = 0;
  };

  explicit CpuBackend(int num_threads) : cpu_(CpuConfig{.num_threads = num_threads}) {}
  int num_threads() const noexcept { return cpu_.num_threads(); }

  Weight load(const WeightView& view) { return view; }
  static std::string kernel_name(const Weight&) { return "decoded floats"; }
  static std::int64_t weight_bytes(const Weight& weight) { return weight.rows * weight.row_bytes; }

  Status prepare(const float* x, std::int64_t stride, std::int64_t num_rows, std::int64_t /*cols*/, Input& input) {
    input = {x, stride, num_rows};
    return {};
  }
  Status matmul(const Weight& weight, const Input& input, const float* bias, float* out, std::int64_t out_stride, bool accumulate) {
    return gemm(cpu_, {.weight = weight, .x = input.x, .x_stride = input.stride, .num_rows = input.num_rows, .bias = bias,
                       .out = out, .out_stride = out_stride, .accumulate = accumulate});
  }
  Status embedding(const EmbeddingArgs& args) { return kvpage::embedding(cpu_, args); }
  Status rms_norm(const RmsNormArgs& args) { return kvpage::rms_norm(cpu_, args); }
  Status rope(const RopeArgs& args) { return kvpage::rope(cpu_, args); }
  Status glu(const GluArgs& args) { return kvpage::glu(cpu_, args); }
  Status soft_cap(const SoftCapArgs& args) { return kvpage::soft_cap(cpu_, args); }
  template <KVStorage KV>
  Status append_kv(const AppendKvArgs<KV>& args) {
    return kvpage::append_kv(cpu_, args);
  }
  template <KVStorage KV>
  Status paged_attention(PagedAttentionArgs<KV> args) {
    const std::int64_t bytes = paged_attention_scratch_bytes<KV>(cpu_, args.view.dims, args.num_q_heads);
    args.scratch = aligned_scratch(bytes);
    return kvpage::paged_attention(cpu_, args);
  }
  template <KVStorage KV>
  Status copy_blocks(const CopyBlocksArgs<KV>& args) {
    return kvpage::copy_blocks(cpu_, args);
  }

 private:
  static constexpr std::size_t kScratchAlignment = 64;

  std::span<std::byte> aligned_scratch(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    if (scratch_.size() < size + kScratchAlignment) scratch_.resize(size + kScratchAlignment);
    void* begin = scratch_.data();
    std::size_t space = scratch_.size();
    return {static_cast<std::byte*>(std::align(kScratchAlignment, size, begin, space)), size};
  }

  Cpu cpu_;
  std::vector<std::byte> scratch_;
};

}  // namespace kvpage::engine
