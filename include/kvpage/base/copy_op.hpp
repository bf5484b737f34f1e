/// \file CopyOp: one page copy, as the allocator plans it and a kernel runs it.
#pragma once

#include <kvpage/base/types.hpp>

KVPAGE_BEGIN_NAMESPACE

/// One copy that a step does before its forward pass: tokens [0, num_tokens) of page `source`, in every layer, go to page `target`;
/// the rest of `target` is left as it is.
struct CopyOp {
  BlockId source = kNoBlock;
  BlockId target = kNoBlock;
  std::int64_t num_tokens = 0;
  friend constexpr bool operator==(const CopyOp&, const CopyOp&) = default;
};

KVPAGE_END_NAMESPACE
