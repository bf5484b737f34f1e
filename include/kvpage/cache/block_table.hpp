/// \file BlockTable: which blocks hold the tokens of one sequence, in order, as a view.
#pragma once

#include <kvpage/base/types.hpp>

#include <span>

KVPAGE_BEGIN_NAMESPACE

/// The table of one sequence in one group. Valid until the next operation on the allocator.
struct BlockTable {
  std::span<const BlockId> blocks;  ///< [ceil(num_tokens / block_size)], contiguous 32-bit ids; token t lies in blocks[t / block_size]
  std::int64_t num_tokens = 0;      ///< tokens that have a place
  std::int64_t first_live = 0;      ///< entries before it are kNoBlock (released behind a sliding window)
};

KVPAGE_END_NAMESPACE
