/// \file rope on the CPU: tokens spread over the workers; sines are computed once per token for all its heads.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/rope/args.hpp>
#include <kvpage/kernels/rope/sin_cos.hpp>

#define KVPAGE_ISA_BODY <kvpage/kernels/rope/cpu_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The contract is RopeArgs. Errors: a bad shape, pointer or position; then nothing is written.
inline Status rope(Cpu& cpu, const RopeArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  using Rotate = void (*)(const RopeArgs&, float*, const float*, const float*);
  const Rotate rotate = args.pairing == RopePairing::kHalf ? cpu.select(IsaTable<Rotate>{KVPAGE_ISA_TABLE(rope_half_token)})
                                                           : cpu.select(IsaTable<Rotate>{KVPAGE_ISA_TABLE(rope_adjacent_token)});
  cpu.parallel_for(args.num_tokens, 8, [&](std::int64_t begin, std::int64_t end, int) {
    float cosine[kMaxRotaryDim / 2];
    float sine[kMaxRotaryDim / 2];
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < args.rotary_dim / 2; ++i) {
        const SinCos angle = sin_cos(static_cast<double>(args.positions[t]) * static_cast<double>(args.inv_freq[i]));
        cosine[i] = static_cast<float>(static_cast<double>(args.magnitude) * angle.cos);
        sine[i] = static_cast<float>(static_cast<double>(args.magnitude) * angle.sin);
      }
      rotate(args, args.x + t * args.token_stride, cosine, sine);
    }
  });
  return {};
}

KVPAGE_END_NAMESPACE
