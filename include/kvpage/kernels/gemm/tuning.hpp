/// \file GemmTuning: how a packed launch is cut into pieces; none of it changes a bit of the result.
#pragma once

#include <kvpage/base/types.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Sizes of the pieces of a packed GEMM.
struct GemmTuning {
  std::int64_t block_rows = 24;    ///< activation rows that stay in the first-level cache while a panel passes
  std::int64_t block_cols = 4096;  ///< columns per pass over a panel: sums are kept in memory between passes
  std::int64_t chunk_panels = 8;   ///< panels that a worker takes at a time when there are many rows
  std::int64_t few_rows_panels = 4;  ///< the same when all rows fit one block
};

KVPAGE_END_NAMESPACE
