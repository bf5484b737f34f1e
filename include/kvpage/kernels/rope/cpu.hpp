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

/// The contract is RopeTableArgs. Errors: a bad shape, pointer or position; then nothing is written.
inline Status rope_table(Cpu& cpu, const RopeTableArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  cpu.parallel_for(args.num_tokens, 8, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      detail::rope_row(args.positions[t], args.inv_freq, args.rotary_dim / 2, args.magnitude, args.out + t * args.rotary_dim);
    }
  });
  return {};
}

/// The contract is RopeArgs. Errors: a bad shape, pointer or position; then nothing is written.
inline Status rope(Cpu& cpu, const RopeArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  using Rotate = void (*)(const RopeArgs&, float*, const float*, const float*);
  const Rotate rotate = args.pairing == RopePairing::kHalf ? cpu.select(IsaTable<Rotate>{KVPAGE_ISA_TABLE(rope_half_token)})
                                                           : cpu.select(IsaTable<Rotate>{KVPAGE_ISA_TABLE(rope_adjacent_token)});
  cpu.parallel_for(args.num_tokens, 8, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t num_pairs = args.rotary_dim / 2;
    float own[kMaxRotaryDim];
    for (std::int64_t t = begin; t < end; ++t) {
      const float* row = own;
      if (args.table != nullptr) row = args.table + t * args.rotary_dim;
      else detail::rope_row(args.positions[t], args.inv_freq, num_pairs, args.magnitude, own);
      rotate(args, args.x + t * args.token_stride, row, row + num_pairs);
    }
  });
  return {};
}

KVPAGE_END_NAMESPACE
