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

/// One copy that a step does before its forward pass: tokens [0, num_tokens) of page `source`, in every layer, go to page `target`;
/// the rest of `target` is left as it is.
struct CopyOp {
  BlockId source = kNoBlock;
  BlockId target = kNoBlock;
  std::int64_t num_tokens = 0;
  friend constexpr bool operator==(const CopyOp&, const CopyOp&) = default;
};

KVPAGE_END_NAMESPACE
