/// \file The list of KV cache formats, with the names that the command line uses, and the defaults.
#pragma once

#include <kvpage/kv/kv_format.hpp>
#include <kvpage/kv/kv_quant.hpp>
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

/// 8-bit keys (rotated, key bias taken out) and values: half the bytes of f16, and nearly its quality.
struct Int8KV {
  static constexpr std::string_view kName = "int8";
  using Key = SymmetricKeyCodec;
  using Value = SymmetricValueCodec;
};

/// 8-bit keys and 4-bit values: the small cache that still answers well, as most of the damage of 4 bits is in the keys.
struct Int4KV {
  static constexpr std::string_view kName = "int4";
  using Key = SymmetricKeyCodec;
  using Value = GroupedCodec;
};

/// 4-bit keys too: the smallest cache, at a visible cost in quality; never a default.
struct Int4K4KV {
  static constexpr std::string_view kName = "int4-k4";
  using Key = GroupedCodec;
  using Value = GroupedCodec;
};

/// Every KV format, widest first.
using KVFormats = TypeList<PlainKV<F32>, PlainKV<F16>, PlainKV<BF16>, Fp8KV, Int8KV, Int4KV, Int4K4KV>;

/// Format of the fast kernels unless the user chooses another one.
using DefaultKVFormat = PlainKV<F16>;
/// Format of the reference kernels unless the user chooses another one.
using ReferenceKVFormat = PlainKV<F32>;

/// A format in the order of the CPU kernels.
template <KVFormat F>
using CpuKV = PagedKV<F, KeyTransposedLayout>;

KVPAGE_END_NAMESPACE
