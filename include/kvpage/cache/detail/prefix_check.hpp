/// \file Whole-state checks of the prefix index, recounted from scratch, and its part of the digest.
#pragma once

#include <kvpage/cache/detail/allocator_core.hpp>
#include <kvpage/cache/detail/digest.hpp>
#include <kvpage/cache/detail/prefix_tree.hpp>
#include <kvpage/cache/portable_key.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// A node agrees with its blocks, its parent, its key and its place in the map.
template <class Core>
void check_node(const Core& core, std::uint32_t n) {
  const PrefixTree& tree = core.index.tree();
  const PrefixNode& node = tree[n];
  const PrefixNode& parent = tree[node.parent];
  KVPAGE_ASSERT(parent.alive, "the parent of a node is alive");
  KVPAGE_ASSERT(core.index.key(core.index.node_key(node.parent), node.extra, tree.tokens(n)) == node.key, "a key covers its node");
  if (core.index.portable_keys() && node.extra == 0) {
    const PortableKey expected = core.index.portable_child(core.index.portable_key(node.parent), 0, tree.tokens(n), {});
    KVPAGE_ASSERT(core.index.portable_key(n) == expected, "a portable key covers its node");
  }
  KVPAGE_ASSERT(tree.map().count(n) == 1, "a node is once in the map");
  KVPAGE_ASSERT(tree.has_blocks(n) || node.first_child != kNoLink, "a tombstone has children");
  KVPAGE_ASSERT(core.open() || node.hidden == 0, "nodes are hidden only by an open transaction");
  for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
    const std::uint32_t b = node.block[g];
    if (b == kNoLink) continue;
    KVPAGE_ASSERT(core.pool.record(b).node == n, "node and block name each other");
    KVPAGE_ASSERT(core.pool.record(b).hidden == !node.visible(g), "node and block agree on being hidden");
    KVPAGE_ASSERT(core.pool.record(b).state != BlockState::kClean || core.pool.record(b).hidden, "a findable block is not clean");
    if (core.config.window(g) != 0 || tree.is_root(node.parent) || !node.visible(g)) continue;
    KVPAGE_ASSERT(parent.visible(g), "a findable block's ancestors are findable");
  }
}

template <class Core>
void check_index(const Core& core) {
  const PrefixTree& tree = core.index.tree();
  std::int64_t alive = 0;
  for (std::uint32_t n = 0; n < tree.num_slots(); ++n) {
    std::uint32_t solid = 0;
    if (tree[n].alive) {
      for (std::uint32_t c = tree[n].first_child; c != kNoLink; c = tree[c].next_sibling) {
        KVPAGE_ASSERT(tree[c].alive && tree[c].parent == n, "children name their parent");
        solid += tree.solid(c) ? 1 : 0;
      }
      KVPAGE_ASSERT(solid == tree[n].solid_children, "solid children are counted");
    }
    if (tree.is_root(n) || !tree[n].alive) continue;
    ++alive;
    check_node(core, n);
  }
  KVPAGE_ASSERT(alive == tree.map().size(), "the map holds the live nodes");
  for (std::uint32_t b = 0; static_cast<std::int64_t>(b) < core.pool.num_blocks(); ++b) {
    const std::uint32_t n = core.pool.record(b).node;
    if (n == kNoLink) continue;
    KVPAGE_ASSERT(tree[n].alive && tree[n].block[tree.group_of(n, b)] == b, "block and node name each other");
  }
  std::int64_t pinned = 0;
  for (const std::uint32_t count : core.pins.per_block) pinned += count > 0 ? 1 : 0;
  KVPAGE_ASSERT(pinned == core.pins.num_blocks && pinned * 2 <= core.pool.num_blocks(), "pinned blocks stay within half the pool");
}

template <class Core>
std::uint64_t digest_index(const Core& core) {
  Digest digest;
  const PrefixTree& tree = core.index.tree();
  for (std::uint32_t n = 0; n < tree.num_slots(); ++n) {
    const PrefixNode& node = tree[n];
    if (!node.alive) continue;
    digest.fold(n | (std::uint64_t{node.parent} << 32));
    digest.fold(node.key.lo ^ node.hidden);
    digest.fold(node.first_child | (std::uint64_t{node.next_sibling} << 32));
    digest.fold(node.solid_children | (std::uint64_t{tree.retention(n).hits} << 32));
    for (std::int64_t g = 0; g < core.config.num_groups; ++g) digest.fold(node.block[g]);
  }
  for (const Pin& pin : core.pins.pins) digest.fold(pin.alive ? pin.node : kNoLink);
  return digest.value;
}

}  // namespace detail
KVPAGE_END_NAMESPACE
