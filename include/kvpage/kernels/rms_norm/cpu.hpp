/// \file rms_norm on the CPU: rows spread over the workers.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/rms_norm/args.hpp>

#define KVPAGE_ISA_BODY <kvpage/kernels/rms_norm/cpu_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Normalises rows [begin, end) of a launch that `validate` accepts, on the calling thread: for an epilogue of another kernel.
template <Element X, Element Out = X>
class BasicRmsNormRows {
 public:
  explicit BasicRmsNormRows(const Cpu& cpu) noexcept
      : rows_(cpu.select(IsaTable<Rows>{KVPAGE_ISA_TABLE(template rms_norm_rows<X, Out>)})) {}

  void operator()(const BasicRmsNormArgs<X, Out>& args, std::int64_t begin, std::int64_t end) const noexcept { rows_(args, begin, end); }

 private:
  using Rows = void (*)(const BasicRmsNormArgs<X, Out>& args, std::int64_t begin, std::int64_t end);
  Rows rows_;
};
using RmsNormRows = BasicRmsNormRows<float>;

/// The contract is RmsNormArgs. Errors: a bad shape or pointer; then nothing is written.
template <Element X = float, Element Out = X>
Status rms_norm(Cpu& cpu, const BasicRmsNormArgs<X, Out>& args) {
  if (const Status status = validate(args); !status.ok() || args.num_rows == 0) return status;
  const BasicRmsNormRows<X, Out> rows(cpu);
  constexpr std::int64_t kChunkElements = 4096;  // less work than this does not pay for waking a worker
  const std::int64_t grain = std::max<std::int64_t>(1, kChunkElements / args.dim);
  cpu.parallel_for(args.num_rows, grain, [&](std::int64_t begin, std::int64_t end, int) { rows(args, begin, end); });
  return {};
}

KVPAGE_END_NAMESPACE
