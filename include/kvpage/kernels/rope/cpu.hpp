/// \file rope and rope_table on the CPU: tokens spread over the workers; sines are computed once per token, or once per step.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/rope/args.hpp>
#include <kvpage/kernels/rope/sin_cos.hpp>

#define KVPAGE_ISA_BODY <kvpage/kernels/rope/cpu_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// Cosines, then sines of the pairs at `position`. // out [2, rotary_dim / 2]
inline void rope_row(std::int64_t position, const float* inv_freq, std::int64_t num_pairs, float magnitude, float* out) noexcept {
  for (std::int64_t i = 0; i < num_pairs; ++i) {
    const SinCos angle = sin_cos(static_cast<double>(position) * static_cast<double>(inv_freq[i]));
    out[i] = static_cast<float>(static_cast<double>(magnitude) * angle.cos);
    out[num_pairs + i] = static_cast<float>(static_cast<double>(magnitude) * angle.sin);
  }
}
}  // namespace detail

/// rope_table of positions and frequencies that `validate_tables` accepts.
inline Status rope_table(Cpu& cpu, const RopeTableArgs& args, TablesChecked) {
  if (const Status status = validate(args); !status.ok()) return status;
  cpu.parallel_for(args.num_tokens, 8, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      detail::rope_row(args.positions[t], args.inv_freq, args.rotary_dim / 2, args.magnitude, args.out + t * args.rotary_dim);
    }
  });
  return {};
}

/// The contract is RopeTableArgs. Errors: a bad shape, pointer or position; then nothing is written.
inline Status rope_table(Cpu& cpu, const RopeTableArgs& args) {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return rope_table(cpu, args, kTablesChecked);
}

/// Rotates tokens on the calling thread: for an epilogue of another kernel.
template <Element X>
class BasicRopeTokens {
 public:
  BasicRopeTokens(const Cpu& cpu, RopePairing pairing) noexcept
      : rotate_(pairing == RopePairing::kHalf ? cpu.select(IsaTable<Rotate>{KVPAGE_ISA_TABLE(template rope_half_token<X>)})
                                              : cpu.select(IsaTable<Rotate>{KVPAGE_ISA_TABLE(template rope_adjacent_token<X>)})) {}

  /// Tokens [begin, end) of a launch that `validate_launch` accepts, with the pairing of the constructor.
  void operator()(const BasicRopeArgs<X>& args, std::int64_t begin, std::int64_t end) const noexcept {
    const std::int64_t num_pairs = args.rotary_dim / 2;
    float own[kMaxRotaryDim];
    for (std::int64_t t = begin; t < end; ++t) {
      const float* row = own;
      if (args.table != nullptr) row = args.table + t * args.rotary_dim;
      else detail::rope_row(args.positions[t], args.inv_freq, num_pairs, args.magnitude, own);
      rotate_(args, args.x + t * args.token_stride, row, row + num_pairs);
    }
  }

 private:
  using Rotate = void (*)(const BasicRopeArgs<X>&, Stored<X>*, const float*, const float*);
  Rotate rotate_;
};
using RopeTokens = BasicRopeTokens<float>;

/// rope of positions and frequencies that `validate_tables` accepts.
template <Element X = float>
Status rope(Cpu& cpu, const BasicRopeArgs<X>& args, TablesChecked) {
  if (const Status status = validate(args); !status.ok() || args.num_heads == 0) return status;
  const BasicRopeTokens<X> rotate(cpu, args.pairing);
  cpu.parallel_for(args.num_tokens, 8, [&](std::int64_t begin, std::int64_t end, int) { rotate(args, begin, end); });
  return {};
}

/// The contract is RopeArgs. Errors: a bad shape, pointer or position; then nothing is written.
template <Element X = float>
Status rope(Cpu& cpu, const BasicRopeArgs<X>& args) {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return rope(cpu, args, kTablesChecked);
}

KVPAGE_END_NAMESPACE
