/// \file The 16-lane vocabulary and its mathematics for every instruction set: what a kernel's cpu.hpp includes.
#pragma once

#include <kvpage/exec/quantized_rows.hpp>
#include <kvpage/exec/simd_avx2.hpp>
#include <kvpage/exec/simd_avx512vnni.hpp>
#include <kvpage/exec/simd_avxvnni.hpp>
#include <kvpage/exec/simd_generic.hpp>

#define KVPAGE_ISA_BODY <kvpage/exec/simd_elements_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

#define KVPAGE_ISA_BODY <kvpage/exec/simd_math_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

#define KVPAGE_ISA_BODY <kvpage/exec/simd_quantize_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
