/// \file The list of all shipped precisions; tests, benches and examples read it, kernels never do.
#pragma once

#include <kvpage/base/types.hpp>
#include <kvpage/precision/bf16.hpp>
#include <kvpage/precision/f16.hpp>
#include <kvpage/precision/f32.hpp>
#include <kvpage/precision/fp8_e4m3.hpp>
#include <kvpage/precision/fp8_e5m2.hpp>
#include <kvpage/precision/int4.hpp>
#include <kvpage/precision/int8.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Every shipped precision, widest first.
using Precisions = TypeList<F32, F16, BF16, Fp8E4M3, Fp8E5M2, Int8, Int4>;

KVPAGE_END_NAMESPACE
