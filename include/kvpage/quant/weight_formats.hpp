/// \file The list of all shipped weight formats, and the look-up by GGUF type number that loaders need.
#pragma once

#include <kvpage/base/types.hpp>
#include <kvpage/quant/bf16.hpp>
#include <kvpage/quant/f16.hpp>
#include <kvpage/quant/f32.hpp>
#include <kvpage/quant/iq4_nl.hpp>
#include <kvpage/quant/iq4_xs.hpp>
#include <kvpage/quant/mxfp4.hpp>
#include <kvpage/quant/q2_k.hpp>
#include <kvpage/quant/q3_k.hpp>
#include <kvpage/quant/q4_0.hpp>
#include <kvpage/quant/q4_1.hpp>
#include <kvpage/quant/q4_k.hpp>
#include <kvpage/quant/q5_0.hpp>
#include <kvpage/quant/q5_1.hpp>
#include <kvpage/quant/q5_k.hpp>
#include <kvpage/quant/q6_k.hpp>
#include <kvpage/quant/q8_0.hpp>
#include <kvpage/quant/tq1_0.hpp>
#include <kvpage/quant/tq2_0.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Every shipped weight format: plain floats, blocks of 32, super-blocks of 256, non-uniform and ternary.
using WeightFormats = TypeList<F32Weight, F16Weight, BF16Weight, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K,
                               IQ4_NL, IQ4_XS, MXFP4, TQ1_0, TQ2_0>;

/// The format with this GGUF type number, or nullptr if kvpage has no decoder for it. The object lives for ever.
[[nodiscard]] constexpr const WeightFormatInfo* find_weight_format(std::uint64_t gguf_type) noexcept {
  const WeightFormatInfo* found = nullptr;
  for_each_type(WeightFormats{}, [&]<class W>() {
    if (W::kGgufType == gguf_type) found = &kWeightFormatInfo<W>;
  });
  return found;
}

KVPAGE_END_NAMESPACE
