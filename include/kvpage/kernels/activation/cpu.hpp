/// \file glu and soft_cap on the CPU.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/activation/args.hpp>

#define KVPAGE_ISA_BODY <kvpage/kernels/activation/cpu_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The contract is GluArgs. Errors: a bad shape or pointer; then nothing is written.
inline Status glu(Cpu& cpu, const GluArgs& args) {
  if (const Status status = validate(args); !status.ok() || args.num_rows == 0) return status;
  const auto rows = cpu.select(IsaTable<void (*)(const GluArgs&, std::int64_t, std::int64_t)>{KVPAGE_ISA_TABLE(glu_rows)});
  constexpr std::int64_t kChunkElements = 4096;  // less work than this does not pay for waking a worker
  const std::int64_t grain = std::max<std::int64_t>(1, kChunkElements / args.dim);
  cpu.parallel_for(args.num_rows, grain, [&](std::int64_t begin, std::int64_t end, int) { rows(args, begin, end); });
  return {};
}

/// The contract is SoftCapArgs. Errors: a bad shape or pointer; then nothing is written.
inline Status soft_cap(Cpu& cpu, const SoftCapArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  const auto columns =
      cpu.select(IsaTable<void (*)(const SoftCapArgs&, std::int64_t, std::int64_t)>{KVPAGE_ISA_TABLE(soft_cap_columns)});
  cpu.parallel_for(args.dim, 4096, [&](std::int64_t begin, std::int64_t end, int) { columns(args, begin, end); });
  return {};
}

KVPAGE_END_NAMESPACE
