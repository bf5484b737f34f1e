/// \file PrefixTree: the nodes of all namespaces, their tokens, and which blocks hold them.
#pragma once

#include <kvpage/cache/detail/prefix_map.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Nodes [0, num_roots) are the roots, one per namespace; the others come from a free list.
class PrefixTree {
 public:
  void attach(Arena& arena, const BlockAllocatorConfig& config, std::int64_t num_roots, std::int64_t max_nodes) {
    nodes_ = arena.cut<PrefixNode>(num_roots + max_nodes);
    retention_ = arena.cut<NodeRetention>(num_roots + max_nodes);
    tokens_ = arena.cut_raw<TokenId>((num_roots + max_nodes) * config.block_size);
    map_.attach(arena, max_nodes);
    block_size_ = static_cast<std::size_t>(config.block_size);
    num_groups_ = config.num_groups;
    for (std::int64_t g = 0; g < num_groups_; ++g) full_groups_ |= config.window(g) == 0 ? 1u << g : 0u;
    num_roots_ = static_cast<std::uint32_t>(num_roots);
    for (std::size_t n = nodes_.size(); n-- > num_roots_;) {
      nodes_[n].first_child = free_;
      free_ = static_cast<std::uint32_t>(n);
    }
    for (std::size_t n = 0; n < nodes_.size() && n < num_roots_; ++n) nodes_[n].alive = true;
  }

  [[nodiscard]] const PrefixNode& operator[](std::uint32_t n) const noexcept { return nodes_[n]; }
  [[nodiscard]] PrefixNode& operator[](std::uint32_t n) noexcept { return nodes_[n]; }
  [[nodiscard]] const NodeRetention& retention(std::uint32_t n) const noexcept { return retention_[n]; }
  [[nodiscard]] NodeRetention& retention(std::uint32_t n) noexcept { return retention_[n]; }
  [[nodiscard]] const PrefixMap& map() const noexcept { return map_; }
  [[nodiscard]] std::uint32_t num_slots() const noexcept { return static_cast<std::uint32_t>(nodes_.size()); }
  [[nodiscard]] std::uint32_t num_roots() const noexcept { return num_roots_; }
  [[nodiscard]] bool is_root(std::uint32_t n) const noexcept { return n < num_roots_; }
  [[nodiscard]] bool alive(std::uint32_t n, std::uint32_t generation) const noexcept {
    return n < nodes_.size() && nodes_[n].alive && nodes_[n].generation == generation;
  }
  [[nodiscard]] std::span<const TokenId> tokens(std::uint32_t n) const noexcept {
    return {tokens_.data() + n * block_size_, nodes_[n].num_tokens};
  }

  /// The child of `parent` with exactly this content, or kNoLink. The key only finds candidates.
  [[nodiscard]] std::uint32_t find(std::uint32_t parent, const PrefixKey& key, std::uint32_t extra,
                                   std::span<const TokenId> content) const {
    return map_.find(key, [&](std::uint32_t n) {
      const PrefixNode& node = nodes_[n];
      const std::span<const TokenId> own = tokens(n);
      return node.parent == parent && node.extra == extra && node.key == key && own.size() == content.size() &&
             std::equal(own.begin(), own.end(), content.begin());
    });
  }

  /// A new node without blocks, or kNoLink when nodes or probes run out. It must get a block or be freed by `prune`.
  std::uint32_t insert(std::uint32_t parent, const PrefixKey& key, std::uint32_t extra, std::span<const TokenId> content) {
    if (free_ == kNoLink || !map_.insert(key, free_)) return kNoLink;
    const std::uint32_t n = free_;
    PrefixNode& node = nodes_[n];
    free_ = node.first_child;
    node = {.key = key, .parent = parent, .generation = node.generation, .next_sibling = nodes_[parent].first_child,
            .extra = extra, .num_tokens = static_cast<std::uint16_t>(content.size()), .alive = true};
    if (node.next_sibling != kNoLink) nodes_[node.next_sibling].prev_sibling = n;
    nodes_[parent].first_child = n;
    std::copy(content.begin(), content.end(), tokens_.begin() + static_cast<std::ptrdiff_t>(n * block_size_));
    retention_[n] = {};
    retention_[n].depth = is_root(parent) ? 0 : retention_[parent].depth + 1;
    return n;
  }

  void attach_block(std::uint32_t n, std::int64_t group, std::uint32_t b) noexcept {
    const bool was_solid = solid(n);
    nodes_[n].block[group] = b;
    if (!was_solid && solid(n)) ++nodes_[nodes_[n].parent].solid_children;
  }

  /// Block b of node n cannot be found any more. Returns the parent if that made it a leaf, else kNoLink.
  std::uint32_t hide(std::uint32_t n, std::uint32_t b) noexcept {
    const bool was_solid = solid(n);
    nodes_[n].hidden |= static_cast<std::uint8_t>(1u << group_of(n, b));
    const std::uint32_t parent = nodes_[n].parent;
    if (!was_solid || solid(n)) return kNoLink;
    return --nodes_[parent].solid_children == 0 && !is_root(parent) ? parent : kNoLink;
  }
  void unhide(std::uint32_t n, std::uint32_t b) noexcept {
    const bool was_solid = solid(n);
    nodes_[n].hidden &= static_cast<std::uint8_t>(~(1u << group_of(n, b)));
    if (!was_solid && solid(n)) ++nodes_[nodes_[n].parent].solid_children;
  }

  /// Takes the hidden block b off node n, and frees n and ancestors that are left with neither blocks nor children.
  void detach(std::uint32_t n, std::uint32_t b) noexcept {
    const std::int64_t g = group_of(n, b);
    nodes_[n].block[g] = kNoLink;
    nodes_[n].hidden &= static_cast<std::uint8_t>(~(1u << g));
    prune(n);
  }

  void prune(std::uint32_t n) noexcept {
    while (!is_root(n) && nodes_[n].first_child == kNoLink && !has_blocks(n)) {
      const std::uint32_t parent = nodes_[n].parent;
      release(n);
      n = parent;
    }
  }

  /// The ancestor `up` levels above n; kNoLink for a root or a dead node.
  [[nodiscard]] std::uint32_t ancestor(std::uint32_t n, std::uint32_t up) const noexcept {
    while (up-- > 0 && n != kNoLink) n = nodes_[n].alive ? nodes_[n].parent : kNoLink;
    return n == kNoLink || is_root(n) ? kNoLink : n;
  }

  [[nodiscard]] bool has_blocks(std::uint32_t n) const noexcept {
    return std::any_of(nodes_[n].block, nodes_[n].block + num_groups_, [](std::uint32_t b) { return b != kNoLink; });
  }
  /// True when a full-attention group can find the node.
  [[nodiscard]] bool solid(std::uint32_t n) const noexcept {
    for (std::int64_t g = 0; g < num_groups_; ++g) {
      if ((full_groups_ >> g & 1u) != 0 && nodes_[n].visible(g)) return true;
    }
    return false;
  }
  [[nodiscard]] std::int64_t group_of(std::uint32_t n, std::uint32_t b) const noexcept {
    std::int64_t g = 0;
    while (g < num_groups_ - 1 && nodes_[n].block[g] != b) ++g;
    KVPAGE_ASSERT(nodes_[n].block[g] == b, "a block's node names the block");
    return g;
  }

 private:
  void release(std::uint32_t n) noexcept {
    PrefixNode& node = nodes_[n];
    map_.erase(node.key, n);
    (node.prev_sibling == kNoLink ? nodes_[node.parent].first_child : nodes_[node.prev_sibling].next_sibling) = node.next_sibling;
    if (node.next_sibling != kNoLink) nodes_[node.next_sibling].prev_sibling = node.prev_sibling;
    node.alive = false;
    node.parent = kNoLink;
    ++node.generation;
    node.first_child = free_;
    free_ = n;
  }

  std::span<PrefixNode> nodes_;
  std::span<NodeRetention> retention_;
  std::span<TokenId> tokens_;
  PrefixMap map_;
  std::size_t block_size_ = 1;
  std::int64_t num_groups_ = 1;
  std::uint32_t full_groups_ = 0;
  std::uint32_t num_roots_ = 0;
  std::uint32_t free_ = kNoLink;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
