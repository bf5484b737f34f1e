/// \file glu and soft_cap on the CPU.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/activation/args.hpp>

#define KVPAGE_ISA_BODY <kvpage/kernels/activation/cpu_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The contract is GluArgs. Errors: a bad shape or pointer; then nothing is written.
template <Element X = float, Element Out = X>
Status glu(Cpu& cpu, const BasicGluArgs<X, Out>& args) {
  if (const Status status = validate(args); !status.ok() || args.num_rows == 0) return status;
  using Rows = void (*)(const BasicGluArgs<X, Out>&, std::int64_t, std::int64_t);
  const auto rows = cpu.select(IsaTable<Rows>{KVPAGE_ISA_TABLE(template glu_rows<X, Out>)});
  constexpr std::int64_t kChunkElements = 4096;  // less work than this does not pay for waking a worker
  const std::int64_t grain = std::max<std::int64_t>(1, kChunkElements / args.dim);
  cpu.parallel_for(args.num_rows, grain, [&](std::int64_t begin, std::int64_t end, int) { rows(args, begin, end); });
  return {};
}

/// The contract is SoftCapArgs. Errors: a bad shape or pointer; then nothing is written.
template <Element X = float>
Status soft_cap(Cpu& cpu, const BasicSoftCapArgs<X>& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  using Columns = void (*)(const BasicSoftCapArgs<X>&, std::int64_t, std::int64_t);
  const auto columns = cpu.select(IsaTable<Columns>{KVPAGE_ISA_TABLE(template soft_cap_columns<X>)});
  cpu.parallel_for(args.dim, 4096, [&](std::int64_t begin, std::int64_t end, int) { columns(args, begin, end); });
  return {};
}

KVPAGE_END_NAMESPACE
