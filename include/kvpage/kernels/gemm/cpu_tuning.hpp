/// \file GemmTuning: how a packed launch is cut into pieces; none of it changes a bit of the result.
#pragma once

#include <kvpage/base/types.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Sizes of the pieces of a packed GEMM.
struct GemmTuning {
  std::int64_t block_rows = 48;     ///< activation rows that a worker multiplies with a panel at a time
  std::int64_t pass_bytes = 65536;  ///< of a panel per pass: it and the block's part of the rows stay in the second-level cache
  std::int64_t chunk_panels = 8;    ///< panels that a worker takes at a time at most, when there are many rows
  std::int64_t few_rows_panels = 4;  ///< the same when all rows fit one block
};

KVPAGE_END_NAMESPACE
