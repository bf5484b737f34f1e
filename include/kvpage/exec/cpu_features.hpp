/// \file CpuFeatures: which vector extensions this processor and its operating system offer.
#pragma once

#include <kvpage/base/config.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

KVPAGE_BEGIN_NAMESPACE

/// Vector extensions that kernels are compiled for. A flag is set only if the operating system saves the registers too.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool half_conversion = false;  ///< F16C
  bool avx_vnni = false;         ///< vpdpbusd on ymm registers, VEX encoded
  bool avx512_base = false;      ///< F, BW, VL and DQ
  bool avx512_vnni = false;
};

#if defined(__x86_64__)
namespace detail {
struct CpuidResult {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

inline CpuidResult cpuid(unsigned leaf, unsigned subleaf) noexcept {
  CpuidResult r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

/// Which register states the operating system saves (XCR0). Requires: OSXSAVE.
inline unsigned saved_register_states() noexcept {
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}
}  // namespace detail

/// Asks the processor. Cost: a few hundred cycles (more under a hypervisor): call it once.
/// Source: Intel SDM volume 2, CPUID leaves 1 and 7; volume 1 chapter 13 (XCR0).
inline CpuFeatures detect_cpu_features() noexcept {
  const auto bit = [](unsigned word, int index) { return (word >> index & 1u) != 0; };
  CpuFeatures features;
  const auto leaf1 = detail::cpuid(1, 0);
  if (!bit(leaf1.ecx, 27)) return features;  // OSXSAVE
  const unsigned saved = detail::saved_register_states();
  if ((saved & 0x6u) != 0x6u) return features;  // xmm and ymm
  const auto leaf7 = detail::cpuid(7, 0);
  const auto leaf7_1 = leaf7.eax >= 1 ? detail::cpuid(7, 1) : detail::CpuidResult{};
  features.avx2 = bit(leaf7.ebx, 5);
  features.fma = bit(leaf1.ecx, 12);
  features.half_conversion = bit(leaf1.ecx, 29);
  features.avx_vnni = bit(leaf7_1.eax, 4);
  if ((saved & 0xe6u) == 0xe6u) {  // opmask and zmm as well
    features.avx512_base = bit(leaf7.ebx, 16) && bit(leaf7.ebx, 17) && bit(leaf7.ebx, 30) && bit(leaf7.ebx, 31);
    features.avx512_vnni = bit(leaf7.ecx, 11);
  }
  return features;
}
#else
inline CpuFeatures detect_cpu_features() noexcept { return {}; }
#endif

KVPAGE_END_NAMESPACE
