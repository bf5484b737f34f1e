/// \file gemm on the CPU: over packed weights, and over any WeightView by decoding.
#pragma once

#include <kvpage/kernels/gemm/decoded_cpu.hpp>
#include <kvpage/kernels/gemm/packed_cpu.hpp>
