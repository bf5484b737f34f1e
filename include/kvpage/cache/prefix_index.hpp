/// \file PrefixIndex: finds the longest cached start of a prompt, exactly, within one namespace.
#pragma once

#include <kvpage/cache/detail/prefix_tree.hpp>
#include <kvpage/cache/prefix_hit.hpp>
#include <kvpage/cache/prefix_namespace.hpp>

#include <concepts>
#include <optional>

KVPAGE_BEGIN_NAMESPACE

/// A keyed hash of (parent key, extra id, tokens). Its quality decides speed only: content is compared on every hit.
template <class H>
concept PrefixHash = std::copy_constructible<H> &&
                     requires(const H hash, const PrefixKey& parent, std::uint32_t extra, std::span<const TokenId> tokens) {
                       { hash(parent, extra, tokens) } -> std::same_as<PrefixKey>;
                     };

/// What a PrefixIndex is built from. Unless it is given a hash or a secret, it draws a secret of its own.
template <PrefixHash Hash = SipHash13>
struct PrefixIndexOptions {
  Hash hash;
  std::int64_t max_nodes = 0;               ///< derived: 1.25 * num_blocks; at the cap publish skips
  std::int64_t max_namespaces = 256;        ///< with the one that has no fields
  std::int64_t namespace_bytes = 64 * 256;  ///< all fields of all namespaces
  std::int64_t token_granule = 1;           ///< partial hits are rounded down to it; 0 = whole blocks only
  bool portable_keys = false;               ///< 32 bytes per node and one SHA-256 per published block: what an OffloadTier needs

  PrefixIndexOptions() requires std::constructible_from<Hash, SipSecret> : PrefixIndexOptions(SipSecret::drawn()) {}
  explicit PrefixIndexOptions(Hash h) : hash(std::move(h)) {}
  /// Requires: Hash is made from a secret, as SipHash13 is.
  explicit PrefixIndexOptions(SipSecret secret) requires std::constructible_from<Hash, SipSecret> : hash(secret) {}
};

/// A tree of published blocks. A key is a chain: each block's key covers its parent's, its tokens and its extra id. The key proposes
/// candidates; a hit needs the parent just verified, equal extra and equal tokens, so by induction it is exact under any hash.
/// Owned and driven by a BlockAllocator. Cost: match O(tokens), one table access per block, hashes running 8 blocks ahead.
template <PrefixHash Hash = SipHash13>
class PrefixIndex {
 public:
  static constexpr bool kEnabled = true;
  using Options = PrefixIndexOptions<Hash>;

  void attach(detail::Arena& arena, const BlockAllocatorConfig& config, const Options& options) {
    const std::int64_t max_nodes = options.max_nodes == 0 ? config.num_blocks + config.num_blocks / 4 + 1 : options.max_nodes;
    if (max_nodes < 1 || max_nodes > kMaxNodes) throw_config_error("max_nodes must be in [1, 2^30]", max_nodes, kMaxNodes, "nodes");
    if (options.max_namespaces < 1 || options.max_namespaces > kMaxNodes) {
      throw_config_error("max_namespaces must be in [1, 2^30]", options.max_namespaces, kMaxNodes, "namespaces");
    }
    if (options.namespace_bytes < 0) throw_config_error("namespace_bytes must not be negative", options.namespace_bytes, 0, "bytes");
    if (options.token_granule < 0 || options.token_granule > config.block_size) {
      throw_config_error("token_granule must be within a block", options.token_granule, config.block_size, "tokens");
    }
    tree_.attach(arena, config, options.max_namespaces, max_nodes);
    namespaces_.attach(arena, options.max_namespaces, options.namespace_bytes);
    if (options.portable_keys) portable_ = arena.cut<PortableKey>(options.max_namespaces + max_nodes);
    if (portable_keys()) portable_[0] = detail::portable_root(config.block_size, 0, {});
    hash_.emplace(options.hash);
    config_ = config;
    granule_ = options.token_granule;
  }

  [[nodiscard]] detail::PrefixTree& tree() noexcept { return tree_; }
  [[nodiscard]] const detail::PrefixTree& tree() const noexcept { return tree_; }
  [[nodiscard]] detail::NamespaceTable& namespaces() noexcept { return namespaces_; }
  [[nodiscard]] const detail::NamespaceTable& namespaces() const noexcept { return namespaces_; }

  /// The id of these fields, new or old. Errors: kBadNamespace, kNoNamespace.
  CacheResult<std::uint32_t> intern(std::span<const NamespaceField> fields) {
    const auto id = namespaces_.intern(fields);
    if (id && portable_keys()) portable_[*id] = detail::portable_root(config_.block_size, fields.size(), namespaces_.bytes(*id));
    return id;
  }

  /// True when every node has its portable key.
  [[nodiscard]] bool portable_keys() const noexcept { return !portable_.empty(); }
  /// The portable key of a node, or of a namespace by its id. Requires: portable_keys().
  [[nodiscard]] const PortableKey& portable_key(std::uint32_t node) const noexcept { return portable_[node]; }
  /// Names a new node. Content behind an extra id without portable terms has no name, nor has what builds on it. Requires: portable_keys().
  void name_portably(std::uint32_t node, std::span<const PortableExtra> content) noexcept {
    portable_[node] = portable_child(portable_[tree_[node].parent], tree_[node].extra, tree_.tokens(node), content);
  }
  [[nodiscard]] static PortableKey portable_child(const PortableKey& parent, std::uint32_t extra, std::span<const TokenId> tokens,
                                                  std::span<const PortableExtra> content) noexcept {
    if (!parent.named() || (extra != 0 && content.empty())) return {};
    return portable_block_key(parent, tokens, extra == 0 ? std::span<const PortableExtra>{} : content);
  }

  [[nodiscard]] const BlockAllocatorConfig& config() const noexcept { return config_; }

  [[nodiscard]] PrefixKey root_key(std::uint32_t name_space) const { return (*hash_)({name_space, ~std::uint64_t{0}}, 0, {}); }
  [[nodiscard]] PrefixKey key(const PrefixKey& parent, std::uint32_t extra, std::span<const TokenId> tokens) const {
    return (*hash_)(parent, extra, tokens);
  }
  [[nodiscard]] PrefixKey node_key(std::uint32_t node) const { return tree_.is_root(node) ? root_key(node) : tree_[node].key; }

  /// First block that queries at position `next_token` need in a group: 0 for full attention.
  [[nodiscard]] std::int64_t first_needed(std::int64_t group, std::int64_t next_token) const noexcept {
    if (config_.window(group) == 0) return 0;
    return std::max<std::int64_t>(0, next_token - config_.window(group) + 1) / config_.block_size;
  }

  /// The longest usable start of the prompt. Changes nothing. Cost: O(tokens).
  [[nodiscard]] PrefixHit match(const PrefixQuery& query, std::uint64_t epoch) const {
    PrefixHit hit{.name_space = query.name_space, .epoch = epoch, .node = query.name_space.value};
    if (query.name_space.value >= namespaces_.size()) {
      hit.node = detail::kNoLink;  // an id beyond the namespaces could be that of a node
      return hit;
    }
    const auto limit = std::clamp<std::int64_t>(query.max_tokens, 0, static_cast<std::int64_t>(query.tokens.size()));
    walk(query, query.tokens.first(static_cast<std::size_t>(limit)), hit);
    hit.generation = tree_[hit.node].generation;
    hit.num_tokens = hit.num_blocks * config_.block_size;
    if (granule_ > 0) extend_partial(query, query.tokens.first(static_cast<std::size_t>(limit)), hit);
    return hit;
  }

  /// Only the hashes of the full blocks of a prompt: the floor under the time of match.
  [[nodiscard]] PrefixKey hash_only(const PrefixQuery& query) const {
    PrefixKey parent = root_key(query.name_space.value);
    const auto block = static_cast<std::size_t>(config_.block_size);
    for (std::size_t i = 0; i + block <= query.tokens.size(); i += block) parent = key(parent, 0, query.tokens.subspan(i, block));
    return parent;
  }

  static std::uint32_t extra_at(std::span<const BlockExtra> extras, std::int64_t block) noexcept {
    const BlockExtra* extra = find_extra(extras, block);
    return extra == nullptr ? 0 : extra->id;
  }
  static std::span<const PortableExtra> extra_content_at(std::span<const BlockExtra> extras, std::int64_t block) noexcept {
    const BlockExtra* extra = find_extra(extras, block);
    return extra == nullptr ? std::span<const PortableExtra>{} : extra->content;
  }

 private:
  static const BlockExtra* find_extra(std::span<const BlockExtra> extras, std::int64_t block) noexcept {
    const auto at = std::lower_bound(extras.begin(), extras.end(), block,
                                     [](const BlockExtra& e, std::int64_t b) { return e.block_index < b; });
    return at != extras.end() && at->block_index == block ? &*at : nullptr;
  }

  static constexpr std::int64_t kMaxNodes = 1 << 30;
  static constexpr std::int64_t kAhead = 8;
  static constexpr int kMaxPartialCandidates = 8;

  /// Follows full blocks as far as their content matches; the hit ends at the last depth where every group has what it needs.
  void walk(const PrefixQuery& query, std::span<const TokenId> tokens, PrefixHit& hit) const {
    const auto block = static_cast<std::size_t>(config_.block_size);
    const auto num_blocks = static_cast<std::int64_t>(tokens.size() / block);
    std::array<PrefixKey, static_cast<std::size_t>(kAhead)> keys;
    std::array<std::int64_t, static_cast<std::size_t>(kMaxCacheGroups)> run{};  // consecutive findable blocks up to here
    PrefixKey last = root_key(query.name_space.value);
    std::uint32_t node = query.name_space.value;
    for (std::int64_t base = 0; base < num_blocks; base += kAhead) {
      const std::int64_t ahead = std::min(kAhead, num_blocks - base);
      for (std::int64_t i = 0; i < ahead; ++i) {
        const auto content = tokens.subspan(static_cast<std::size_t>(base + i) * block, block);
        last = key(last, extra_at(query.extras, base + i), content);
        keys[static_cast<std::size_t>(i)] = last;
        tree_.map().prefetch(last);
      }
      for (std::int64_t i = 0; i < ahead; ++i) {
        const auto content = tokens.subspan(static_cast<std::size_t>(base + i) * block, block);
        node = tree_.find(node, keys[static_cast<std::size_t>(i)], extra_at(query.extras, base + i), content);
        if (node == detail::kNoLink) return;
        if (!covered(node, base + i + 1, run)) continue;
        hit.node = node;
        hit.num_blocks = static_cast<std::uint32_t>(base + i + 1);
      }
    }
  }

  /// Counts the node into each group's run; true when a hit of `depth` blocks has all blocks that its next token looks back at.
  template <class Run>
  [[nodiscard]] bool covered(std::uint32_t node, std::int64_t depth, Run& run) const {
    bool complete = true;
    for (std::int64_t g = 0; g < config_.num_groups; ++g) {
      std::int64_t& length = run[static_cast<std::size_t>(g)];
      length = tree_[node].visible(g) ? length + 1 : 0;
      complete = complete && length >= depth - first_needed(g, depth * config_.block_size);
    }
    return complete;
  }

  /// Looks among the newest children of the last node for the longest common start of the next block.
  void extend_partial(const PrefixQuery& query, std::span<const TokenId> tokens, PrefixHit& hit) const {
    const auto rest = tokens.subspan(static_cast<std::size_t>(hit.num_tokens));
    const std::uint32_t extra = extra_at(query.extras, hit.num_blocks);
    std::uint32_t child = tree_[hit.node].first_child;
    for (int seen = 0; seen < kMaxPartialCandidates && child != detail::kNoLink; ++seen, child = tree_[child].next_sibling) {
      const detail::PrefixNode& node = tree_[child];
      if (node.extra != extra || !everywhere(node)) continue;
      const std::span<const TokenId> own = tree_.tokens(child);
      const auto end = own.begin() + static_cast<std::ptrdiff_t>(std::min(own.size(), rest.size()));
      const std::int64_t common = (std::mismatch(own.begin(), end, rest.begin()).first - own.begin()) / granule_ * granule_;
      if (common <= hit.partial_tokens || common >= config_.block_size) continue;
      hit.partial_tokens = common;
      hit.partial_node = child;
      hit.partial_generation = node.generation;
    }
    hit.num_tokens += hit.partial_tokens;
  }

  [[nodiscard]] bool everywhere(const detail::PrefixNode& node) const noexcept {
    for (std::int64_t g = 0; g < config_.num_groups; ++g) {
      if (!node.visible(g)) return false;
    }
    return true;
  }

  detail::PrefixTree tree_;
  detail::NamespaceTable namespaces_;
  std::span<PortableKey> portable_;  // [roots and nodes], empty without portable keys
  std::optional<Hash> hash_;
  BlockAllocatorConfig config_{};
  std::int64_t granule_ = 1;
};

KVPAGE_END_NAMESPACE
