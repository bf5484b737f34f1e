/// \file gemm over any WeightView on the CPU: decodes each weight row to floats; for formats without a packed kernel.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/gemm/args.hpp>

#define KVPAGE_ISA_BODY <kvpage/kernels/gemm/cpu_decoded_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// One launch of the decoding kernel: which functions, and how many columns fit its stack buffer.
struct DecodedGemm {
  static constexpr std::int64_t kMaxRows = 64;
  static constexpr std::int64_t kMaxCols = 1024;
  using AddProducts = void (*)(const float*, std::int64_t, const float*, std::int64_t, std::int64_t, float*);

  const GemmArgs& args;
  AddProducts add_products;
  float (*sum_lanes)(const float*);
  std::int64_t chunk_cols;

  /// Outputs of weight row n for rows [first, first + num_rows) of x.
  void run(std::int64_t n, std::int64_t first, std::int64_t num_rows) const noexcept {
    alignas(64) float weights[kMaxCols];
    alignas(64) float sums[kMaxRows * 16] = {};
    for (std::int64_t k = 0; k < args.weight.cols; k += chunk_cols) {
      const std::int64_t count = std::min(chunk_cols, args.weight.cols - k);
      args.weight.decode_row(n, k, count, weights);
      add_products(weights, count, args.x + first * args.x_stride + k, args.x_stride, num_rows, sums);
    }
    for (std::int64_t m = 0; m < num_rows; ++m) {
      float value = sum_lanes(sums + 16 * m);
      if (args.bias != nullptr) value += args.bias[n];
      float& out = args.out[(first + m) * args.out_stride + n];
      out = args.accumulate ? out + value : value;
    }
  }
};
}  // namespace detail

/// The contract is GemmArgs. Errors: a bad shape or pointer, or a format whose block exceeds 1,024 weights; nothing is written.
/// Cost: decodes every weight once per 64 rows; packed formats (PackedWeight) are many times faster.
inline Status gemm(Cpu& cpu, const GemmArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  if (args.num_rows == 0) return {};
  const std::int64_t block = args.weight.format->block_elements;
  if (block > detail::DecodedGemm::kMaxCols) {
    return {StatusCode::kUnsupported, "gemm: a block of this weight format does not fit the kernel's buffer", block,
            detail::DecodedGemm::kMaxCols};
  }
  const detail::DecodedGemm launch{
      args, cpu.select(IsaTable<detail::DecodedGemm::AddProducts>{KVPAGE_ISA_TABLE(add_row_products)}),
      cpu.select(IsaTable<float (*)(const float*)>{KVPAGE_ISA_TABLE(sum_lanes)}), detail::DecodedGemm::kMaxCols / block * block};
  cpu.parallel_for(args.weight.rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t first = 0; first < args.num_rows; first += detail::DecodedGemm::kMaxRows) {
      const std::int64_t num_rows = std::min(detail::DecodedGemm::kMaxRows, args.num_rows - first);
      for (std::int64_t n = begin; n < end; ++n) launch.run(n, first, num_rows);
    }
  });
  return {};
}

KVPAGE_END_NAMESPACE
