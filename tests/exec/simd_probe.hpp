/// \file The vocabulary of every instruction set as plain functions, for tests.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>

#include <initializer_list>

KVPAGE_BEGIN_NAMESPACE

/// Operands of a probe.
struct ProbeInput {
  float a[16], b[16], c[16];
  float small[16];  // |x| <= 2^22
  std::uint16_t halves[16];
  std::int32_t ints[16];
  std::uint8_t bytes[64];
  std::uint8_t signed_bytes[64];  // as signed: -127..127
};

KVPAGE_END_NAMESPACE

#define KVPAGE_ISA_BODY "exec/simd_probe_body.hpp"
#include <kvpage/exec/for_each_isa.hpp>

namespace kvpage_test {
using namespace kvpage;
inline constexpr kvpage::IsaTable<std::int64_t (*)(const kvpage::ProbeInput&, std::uint32_t*)> kProbes{KVPAGE_ISA_TABLE(probe_vocabulary)};
inline constexpr kvpage::IsaTable<void (*)(int, const float*, float*)> kMathProbes{KVPAGE_ISA_TABLE(probe_math)};
}  // namespace kvpage_test
