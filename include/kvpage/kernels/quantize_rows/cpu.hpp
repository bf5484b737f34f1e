/// \file quantize_rows on the CPU: rows spread over the workers.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/quantize_rows/args.hpp>

#define KVPAGE_ISA_BODY <kvpage/kernels/quantize_rows/cpu_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The contract is QuantizeRowsArgs. Errors: a bad shape or pointer; then nothing is written.
inline Status quantize_rows(Cpu& cpu, const QuantizeRowsArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  if (args.num_rows == 0) return {};
  using Rows = IsaTable<void (*)(const float*, std::int64_t, QuantizedGroup*)>;
  const bool searches = args.group_scale == GroupScale::kSearched;
  const auto row = cpu.select(searches ? Rows{KVPAGE_ISA_TABLE(quantize_row_searched)} : Rows{KVPAGE_ISA_TABLE(quantize_row)});
  QuantizedRows out = args.out;
  constexpr std::int64_t kChunkElements = 16384;  // less work than this does not pay for waking a worker
  const std::int64_t grain = std::max<std::int64_t>(1, kChunkElements / out.cols);
  cpu.parallel_for(args.num_rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) row(args.x + r * args.x_stride, out.cols, out.row(r));
  });
  return {};
}

KVPAGE_END_NAMESPACE
