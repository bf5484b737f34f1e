/// \file PrefixNode: one block of cached content in the prefix tree, 64 bytes, and what is rarely read about it.
#pragma once

#include <kvpage/cache/block_allocator_config.hpp>
#include <kvpage/cache/eviction_policy.hpp>
#include <kvpage/cache/siphash.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// A node says "these tokens after that parent". Without blocks it is a tombstone that only keeps its children reachable.
struct PrefixNode {
  PrefixKey key;
  std::uint32_t parent = kNoLink;  ///< kNoLink: free or a root
  std::uint32_t generation = 0;    ///< +1 when the node is freed
  std::uint32_t first_child = kNoLink;  ///< newest child; next free node while free
  std::uint32_t next_sibling = kNoLink;
  std::uint32_t prev_sibling = kNoLink;
  std::uint32_t extra = 0;
  std::uint32_t solid_children = 0;  ///< children with a findable block in a full-attention group
  std::uint16_t num_tokens = 0;      ///< block_size, or fewer for a partial leaf
  std::uint8_t hidden = 0;           ///< bit g: block[g] was taken by the open transaction
  bool alive = false;
  std::uint32_t block[kMaxCacheGroups] = {kNoLink, kNoLink, kNoLink, kNoLink};

  [[nodiscard]] bool visible(std::int64_t group) const noexcept {
    return block[group] != kNoLink && (hidden >> group & 1) == 0;
  }
};
static_assert(sizeof(PrefixNode) == 64);

/// What the eviction policy wants to know about a node.
struct NodeRetention {
  std::int64_t expires_at_ns = 0;
  std::int64_t recompute_ns = 0;
  std::uint32_t hits = 0;
  std::uint32_t depth = 0;  ///< blocks before it
  std::uint8_t priority = kDefaultRetentionPriority;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
