/// \file Epilogues of the packed GEMM: what happens to a block of finished sums.
#pragma once

#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/gemm/cpu_packed_args.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Writes `num_cols` <= 32 columns of sums [num_rows, 32] to out [num_rows, num_cols], with bias [num_cols] or null added, and
/// with `accumulate` what out held.
using StoreBlock = void (*)(const float* sums, std::int64_t num_rows, std::int64_t num_cols, const float* bias, float* out,
                            std::int64_t out_stride, bool accumulate);

/// Activates and multiplies the sums of panel `panel` and rows [first_row, first_row + num_rows), and writes what args ask for.
using GluBlock = void (*)(const PackedGluArgs& args, const float* gate, const float* up, std::int64_t panel, std::int64_t first_row,
                          std::int64_t num_rows);

/// Column of the largest of `num_cols` <= 32 sums, the lowest among equal ones, and its value; of the first that is NaN or +infinity if any
/// is.
using PanelMaximum = int (*)(const float* sums, std::int64_t num_cols, float* value);

}  // namespace detail
KVPAGE_END_NAMESPACE

#define KVPAGE_ISA_BODY <kvpage/kernels/gemm/cpu_epilogue_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
