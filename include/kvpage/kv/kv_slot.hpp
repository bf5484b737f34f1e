/// \file KVSlot: the place of one token in the paged cache.
#pragma once

#include <kvpage/base/types.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Where the key and value of one token go: a page, and the token's offset inside it, in [0, block_size).
struct KVSlot {
  BlockId block = kNoBlock;
  std::uint32_t offset = 0;

  friend constexpr bool operator==(const KVSlot&, const KVSlot&) = default;
};

/// The token is not written (its key and value are in the cache already).
inline constexpr KVSlot kNoSlot{};

KVPAGE_END_NAMESPACE
