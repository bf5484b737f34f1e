/// \file gemm on the CPU.
#pragma once

#include <kvpage/kernels/gemm/decoded_cpu.hpp>
