/// \file The list of KV cache formats, with the names that the command line uses, and the defaults.
#pragma once

#include <kvpage/cache/kv_format.hpp>
#include <kvpage/precision/bf16.hpp>
#include <kvpage/precision/f16.hpp>
#include <kvpage/precision/f32.hpp>
#include <kvpage/precision/fp8_e4m3.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Narrow floats with one scale per tensor (1 unless the model's file has one).
struct Fp8KV {
  static constexpr std::string_view kName = "fp8";
  using Key = PlainCodec<Fp8E4M3>;
  using Value = PlainCodec<Fp8E4M3>;
};

/// Every KV format, widest first.
using KVFormats = TypeList<PlainKV<F32>, PlainKV<F16>, PlainKV<BF16>, Fp8KV>;

/// Format of the fast kernels unless the user chooses another one.
using DefaultKVFormat = PlainKV<F16>;
/// Format of the reference kernels unless the user chooses another one.
using ReferenceKVFormat = PlainKV<F32>;

/// A format in the order of the CPU kernels.
template <KVFormat F>
using CpuKV = PagedKV<F, KeyTransposedLayout>;

KVPAGE_END_NAMESPACE
