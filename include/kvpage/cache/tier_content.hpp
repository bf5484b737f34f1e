/// \file TierContent: what identifies a page in a host tier.
#pragma once

#include <kvpage/cache/portable_key.hpp>

KVPAGE_BEGIN_NAMESPACE

/// "No slot": never a slot of a tier.
inline constexpr std::uint32_t kNoTierSlot = 0xFFFF'FFFFu;

/// The content of one page: a full block of tokens behind everything that its key names, in one cache group.
struct TierContent {
  PortableKey key{};
  std::span<const TokenId> tokens{};  // [block_size]
  std::uint32_t group = 0;
};

KVPAGE_END_NAMESPACE
