/// \file gemm on the CPU: over packed weights, and over any WeightView by decoding.
#pragma once

#include <kvpage/kernels/gemm/cpu_decoded.hpp>
#include <kvpage/kernels/gemm/cpu_packed.hpp>
