/// \file Isa: the instruction sets that kernels are compiled for, run-time choice, and the regions that compile them.
///
/// A kernel body is written once, in the vocabulary of simd_<isa>.hpp, in a file `cpu_body.hpp` without include guard
/// and without includes. The kernel's `cpu.hpp` compiles it once per instruction set:
///
///     #include <kvpage/exec/simd.hpp>                                    // and every other include, before the region
///     #define KVPAGE_ISA_BODY <kvpage/kernels/rms_norm/cpu_body.hpp>
///     #include <kvpage/exec/for_each_isa.hpp>                            // now generic::f, avx2::f, ... exist
///     cpu.select({KVPAGE_ISA_TABLE(f)})(arguments);                      // the one that this Cpu runs
///
/// Rules for bodies: call nothing that is inline and defined outside a region except constexpr values (the linker may
/// keep the copy that was compiled with wider instructions); pass pointers and plain structs across the boundary, never
/// vector types. A body opened on its own includes its `cpu.hpp`, so that it compiles alone.
#pragma once

#include <kvpage/exec/cpu_features.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

KVPAGE_BEGIN_NAMESPACE

/// An instruction set path, narrowest first.
enum class Isa : std::uint8_t { kGeneric, kAvx2, kAvxVnni, kAvx512Vnni };

inline constexpr std::array kAllIsas{Isa::kGeneric, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512Vnni};

/// One function per Isa, in the order of kAllIsas.
template <class Function>
using IsaTable = std::array<Function, kAllIsas.size()>;

/// The name that users type and reports show; also the namespace of its kernels.
constexpr const char* isa_name(Isa isa) noexcept {
  constexpr IsaTable<const char*> kNames{"generic", "avx2", "avxvnni", "avx512vnni"};
  return kNames[static_cast<std::size_t>(isa)];
}

/// The Isa of that name, if there is one.
constexpr std::optional<Isa> parse_isa(std::string_view name) noexcept {
  for (const Isa isa : kAllIsas) {
    if (name == isa_name(isa)) return isa;
  }
  return std::nullopt;
}

/// What `features` lacks for `isa`, as a sentence; nullptr when it can run.
constexpr const char* missing_feature(Isa isa, const CpuFeatures& features) noexcept {
  if (isa == Isa::kGeneric) return nullptr;
  if (!features.avx2) return "the processor lacks AVX2, which the forced isa needs";
  if (!features.fma) return "the processor lacks FMA, which the forced isa needs";
  if (!features.half_conversion) return "the processor lacks F16C, which the forced isa needs";
  if (isa == Isa::kAvxVnni && !features.avx_vnni) return "the processor lacks AVX-VNNI, which the forced isa needs";
  if (isa == Isa::kAvx512Vnni && !features.avx512_base) return "the processor lacks AVX-512 F, BW, VL or DQ, which the forced isa needs";
  if (isa == Isa::kAvx512Vnni && !features.avx512_vnni) return "the processor lacks AVX512-VNNI, which the forced isa needs";
  return nullptr;
}

/// The widest Isa that `features` can run.
constexpr Isa best_isa(const CpuFeatures& features) noexcept {
  for (auto isa = kAllIsas.rbegin(); isa != kAllIsas.rend(); ++isa) {
    if (missing_feature(*isa, features) == nullptr) return *isa;
  }
  return Isa::kGeneric;
}

KVPAGE_END_NAMESPACE

/// 1 when the x86 paths are compiled; elsewhere (and under nvcc) every entry of a table is the generic one.
#if defined(__x86_64__) && !defined(__CUDACC__)
#define KVPAGE_ISA_X86 1
#else
#define KVPAGE_ISA_X86 0
#endif

#define KVPAGE_DETAIL_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define KVPAGE_DETAIL_TARGET_PUSH(features) \
  KVPAGE_DETAIL_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define KVPAGE_DETAIL_TARGET_POP _Pragma("clang attribute pop")
#define KVPAGE_UNROLL KVPAGE_DETAIL_PRAGMA(clang loop unroll(full))
#else
// The intrinsics of gcc 12 start from an undefined register and warn about it when inlined (gcc bug 105593).
#define KVPAGE_DETAIL_TARGET_PUSH(features)                                                             \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wuninitialized\"")                   \
  _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"") _Pragma("GCC push_options")                \
  KVPAGE_DETAIL_PRAGMA(GCC target(features))
#define KVPAGE_DETAIL_TARGET_POP _Pragma("GCC pop_options") _Pragma("GCC diagnostic pop")
/// Before a loop over accumulators: without it gcc 12 keeps the array in memory, five times slower.
#define KVPAGE_UNROLL KVPAGE_DETAIL_PRAGMA(GCC unroll 16)
#endif

/// Marks a function of the vocabulary: it must vanish into the kernel that calls it.
#define KVPAGE_LANES inline __attribute__((always_inline))

/// Opens the region of one Isa at file scope: its target options and its namespace. Close it with KVPAGE_ISA_END.
#define KVPAGE_ISA_BEGIN_GENERIC KVPAGE_BEGIN_NAMESPACE namespace generic {
#define KVPAGE_ISA_END_GENERIC } KVPAGE_END_NAMESPACE
#define KVPAGE_ISA_BEGIN_AVX2 KVPAGE_DETAIL_TARGET_PUSH("avx2,fma,f16c") KVPAGE_BEGIN_NAMESPACE namespace avx2 {
#define KVPAGE_ISA_BEGIN_AVXVNNI KVPAGE_DETAIL_TARGET_PUSH("avx2,fma,f16c,avxvnni") KVPAGE_BEGIN_NAMESPACE namespace avxvnni {
#define KVPAGE_ISA_BEGIN_AVX512VNNI                                                             \
  KVPAGE_DETAIL_TARGET_PUSH("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni") \
  KVPAGE_BEGIN_NAMESPACE namespace avx512vnni {
#define KVPAGE_ISA_END } KVPAGE_END_NAMESPACE KVPAGE_DETAIL_TARGET_POP

/// The list of one function (or function template instance) of every Isa's namespace, in the order of kAllIsas.
#if KVPAGE_ISA_X86
#define KVPAGE_ISA_TABLE(...) &generic::__VA_ARGS__, &avx2::__VA_ARGS__, &avxvnni::__VA_ARGS__, &avx512vnni::__VA_ARGS__
#else
#define KVPAGE_ISA_TABLE(...) &generic::__VA_ARGS__, &generic::__VA_ARGS__, &generic::__VA_ARGS__, &generic::__VA_ARGS__
#endif
