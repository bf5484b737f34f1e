/// \file Eviction: which cached block is reused, and what its reuse means for the prefix tree.
#pragma once

#include <kvpage/cache/detail/allocator_core.hpp>
#include <kvpage/cache/detail/prefix_tree.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// A victim is a leaf among the cached blocks: what builds on it goes first. Below it there can still be orphans, whose holders do not
/// hold it: sources of copies in flight, pending blocks, and blocks of a fork whose sibling adopted another parent. They are hidden
/// together with it, so that nothing findable lacks an ancestor; their holders keep them as private blocks.
template <class Core>
class Eviction {
 public:
  explicit Eviction(Core& core) noexcept : core_(core), tree_(core.index.tree()) {}

  /// The cached block to reuse next. Cost: the policy's; linear in the pool when orphans hold back every leaf.
  [[nodiscard]] std::uint32_t pick() const {
    std::uint32_t b = core_.pool.policy().victim();
    if (b == kNoLink) b = deepest_cached();
    KVPAGE_ASSERT(b != kNoLink, "an available block is clean or cached");
    while (true) {
      const std::uint32_t below = cached_below(b);
      if (below == kNoLink) return b;
      b = below;
    }
  }

  /// Block b was taken: its node cannot be found any more, nor its orphans. A parent that became a leaf is reported to the policy.
  void hide(std::uint32_t b) {
    const std::uint32_t n = core_.pool.record(b).node;
    const bool full = core_.config.window(tree_.group_of(n, b)) == 0;
    const std::uint32_t parent = tree_.hide(n, b);
    if (full && tree_[n].solid_children > 0) hide_orphans(n);
    if constexpr (Core::kNeedsLeaves) {
      if (parent != kNoLink) report_leaf(parent);
    } else {
      static_cast<void>(parent);
    }
  }

 private:
  [[nodiscard]] std::uint32_t deepest_cached() const {
    std::uint32_t best = kNoLink;
    for (std::uint32_t b = 0; static_cast<std::int64_t>(b) < core_.pool.num_blocks(); ++b) {
      if (core_.pool.record(b).state != BlockState::kCached) continue;
      if (best == kNoLink || depth(b) > depth(best)) best = b;
    }
    return best;
  }
  [[nodiscard]] std::uint32_t depth(std::uint32_t b) const { return tree_.retention(core_.pool.record(b).node).depth; }

  /// A cached block of a full-attention group that builds on b, at any depth: others can lie between. kNoLink: there is none.
  [[nodiscard]] std::uint32_t cached_below(std::uint32_t b) const {
    const std::uint32_t n = core_.pool.record(b).node;
    if (tree_[n].solid_children == 0 || core_.config.window(tree_.group_of(n, b)) != 0) return kNoLink;
    std::uint32_t found = kNoLink;
    for_each_findable_below(n, [&](std::uint32_t, std::uint32_t below) {
      if (core_.pool.record(below).state == BlockState::kCached) found = below;
      return found == kNoLink;
    });
    return found;
  }

  void hide_orphans(std::uint32_t top) {
    for_each_findable_below(top, [&](std::uint32_t n, std::uint32_t b) {
      hide_orphan(n, b);
      return true;
    });
  }

  /// Calls fn(node, block) for every findable full-attention block below `top`, until fn returns false.
  template <class Fn>
  void for_each_findable_below(std::uint32_t top, Fn&& fn) const {
    std::uint32_t n = tree_[top].first_child;
    while (n != top) {
      for (std::int64_t g = 0; g < core_.config.num_groups; ++g) {
        if (core_.config.window(g) == 0 && tree_[n].visible(g) && !fn(n, tree_[n].block[g])) return;
      }
      if (tree_[n].first_child != kNoLink) {
        n = tree_[n].first_child;
        continue;
      }
      while (n != top && tree_[n].next_sibling == kNoLink) n = tree_[n].parent;
      if (n != top) n = tree_[n].next_sibling;
    }
  }
  void hide_orphan(std::uint32_t n, std::uint32_t b) {
    core_.pool.record(b).hidden = true;
    tree_.hide(n, b);
    core_.log.push({UndoKind::kHide, b});
  }

  void report_leaf(std::uint32_t n) {
    for (std::int64_t g = 0; g < core_.config.num_groups; ++g) {
      const std::uint32_t b = tree_[n].block[g];
      if (core_.config.window(g) != 0 || b == kNoLink || core_.pool.record(b).state != BlockState::kCached) continue;
      core_.log.push({UndoKind::kLeaf, b, core_.pool.policy().on_leaf(b)});
    }
  }

  Core& core_;
  PrefixTree& tree_;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
