/// \file publish: makes the committed blocks of a sequence findable, or swaps them for equal blocks that already are.
#pragma once

#include <kvpage/cache/detail/share_ops.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <class Core>
class Publisher {
 public:
  Publisher(Core& core, SeqId seq, const PublishArgs& args)
      : core_(core), row_(core.rows.row(seq.slot)), args_(args), seq_(seq) {}

  void run() {
    if (row_.origin.detached || row_.content_lost) return;
    if (!core_.chain_known(row_.chain)) row_.chain = {};
    const std::int64_t full = static_cast<std::int64_t>(args_.tokens.size()) / core_.config.block_size;
    while (row_.chain.num_blocks < full) {
      const std::uint32_t i = row_.chain.num_blocks;
      const std::uint32_t node = publish_block(i, content(i));
      if (node == kNoLink) return;
      row_.chain = {node, i + 1, tree()[node].generation};
    }
    const auto rest = args_.tokens.subspan(static_cast<std::size_t>(full * core_.config.block_size));
    // A row that published more already has the tail inside of a full block.
    const bool at_tail = args_.partial_tail && row_.chain.num_blocks == full;
    if (at_tail && !rest.empty() && !has_start(rest)) publish_block(row_.chain.num_blocks, rest);
  }

 private:
  [[nodiscard]] PrefixTree& tree() noexcept { return core_.index.tree(); }
  [[nodiscard]] std::uint32_t parent() const noexcept { return row_.chain.num_blocks == 0 ? row_.origin.name_space : row_.chain.node; }
  [[nodiscard]] std::span<const TokenId> content(std::uint32_t i) const {
    const auto block = static_cast<std::size_t>(core_.config.block_size);
    return args_.tokens.subspan(i * block, block);
  }
  [[nodiscard]] BlockId own(std::uint32_t i, std::int64_t g) const noexcept { return core_.rows.table(seq_.slot, g)[i]; }

  /// True when a child of the chain starts with these tokens already.
  [[nodiscard]] bool has_start(std::span<const TokenId> tokens) {
    const std::uint32_t extra = Core::IndexType::extra_at(args_.extras, row_.chain.num_blocks);
    for (std::uint32_t c = tree()[parent()].first_child; c != kNoLink; c = tree()[c].next_sibling) {
      const auto known = tree().tokens(c);
      if (tree()[c].extra == extra && known.size() >= tokens.size() && std::equal(tokens.begin(), tokens.end(), known.begin())) return true;
    }
    return false;
  }

  /// The node of block i, with a block in every group where the sequence still has one; kNoLink when it cannot be indexed.
  std::uint32_t publish_block(std::uint32_t i, std::span<const TokenId> tokens) {
    const std::uint32_t extra = Core::IndexType::extra_at(args_.extras, i);
    const PrefixKey key = core_.index.key(core_.index.node_key(parent()), extra, tokens);
    std::uint32_t node = tree().find(parent(), key, extra, tokens);
    if (!attachable(node, i)) return kNoLink;
    const bool fresh = node == kNoLink;
    if (fresh) node = tree().insert(parent(), key, extra, tokens);
    if (node == kNoLink) return kNoLink;
    if (fresh && core_.index.portable_keys()) core_.index.name_portably(node, Core::IndexType::extra_content_at(args_.extras, i));
    retain(tree().retention(node), fresh);
    for (std::int64_t g = 0; g < core_.config.num_groups; ++g) {
      if (own(i, g) != kNoBlock) attach_or_adopt(node, i, g);
    }
    return node;
  }

  /// A new node gets this sequence's wish; a known one keeps the stronger of both.
  void retain(NodeRetention& kept, bool fresh) const noexcept {
    if (!fresh && args_.retention.priority < kept.priority) return;
    kept.priority = args_.retention.priority;
    kept.expires_at_ns = args_.retention.expires_at_ns;
    kept.recompute_ns = args_.retention.recompute_ns_per_block;
  }

  /// No own block may belong to another node, and a new node needs a block to start with.
  [[nodiscard]] bool attachable(std::uint32_t node, std::uint32_t i) {
    bool any = node != kNoLink;
    for (std::int64_t g = 0; g < core_.config.num_groups; ++g) {
      if (own(i, g) == kNoBlock) continue;
      const std::uint32_t current = core_.pool.record(own(i, g).value).node;
      if (current != kNoLink && current != node) return false;
      any = true;
    }
    return any;
  }

  void attach_or_adopt(std::uint32_t node, std::uint32_t i, std::int64_t g) {
    const BlockId mine = own(i, g);
    const std::uint32_t known = tree()[node].block[g];
    if (known == mine.value) return;
    if (known == kNoLink) {
      tree().attach_block(node, g, mine.value);
      core_.pool.record(mine.value).node = node;
      core_.pool.policy().on_published(mine.value, core_.info(mine.value));
      emit(CacheEventKind::kPublish, mine, kNoBlock, g, node);
      return;
    }
    core_.acquire_for_good(known, seq_);
    core_.rows.table(seq_.slot, g)[i] = BlockId{known};
    core_.drop_for_good(mine.value, seq_);
    emit(CacheEventKind::kAdopt, BlockId{known}, mine, g, node);
  }

  void emit(CacheEventKind kind, BlockId block, BlockId other, std::int64_t group, std::uint32_t node) {
    if constexpr (Core::kEvents) {
      core_.events.on_event({.kind = kind, .block = block, .other = other, .group = group, .content_key = tree()[node].key.lo,
                             .num_tokens = tree()[node].num_tokens, .seq = seq_});
    } else {
      static_cast<void>(kind), static_cast<void>(block), static_cast<void>(other), static_cast<void>(group), static_cast<void>(node);
    }
  }

  Core& core_;
  SeqRow& row_;
  const PublishArgs& args_;
  SeqId seq_;
};

/// Tokens of a row that no step which may still be aborted has added. Cost: without a sealed step O(1), else its undo entries.
template <class Core>
std::int64_t committed_tokens(const Core& core, std::uint32_t slot) {
  std::int64_t committed = core.rows.row(slot).num_tokens;
  if (core.steps.num_sealed() == 0) return committed;
  for (std::uint64_t p = core.log.begin(); p < core.log.end(); ++p) {
    const UndoEntry& e = core.log.at(p);
    if (e.kind() == UndoKind::kCreate && e.row() == slot) committed = 0;
    if (e.kind() == UndoKind::kResize && e.block() == slot) committed = std::min(committed, old_tokens(e));
  }
  return committed;
}

template <class Core>
CacheResult<void> publish_seq(Core& core, SeqId seq, const PublishArgs& args) {
  if (core.open()) return refuse(CacheRefusalKind::kBusy, 0, 1);
  if (!core.rows.alive(seq)) return dead_seq(seq);
  const auto given = static_cast<std::int64_t>(args.tokens.size());
  const std::int64_t committed = committed_tokens(core, seq.slot);
  if (given > committed) return refuse(CacheRefusalKind::kBadLength, given, committed);
  Publisher<Core>{core, seq, args}.run();
  return {};
}

/// Drops the whole index: cached blocks become clean, used ones private, rows publish no more.
template <class Core>
void detach_everything(Core& core) {
  auto& tree = core.index.tree();
  for (std::uint32_t b = 0; static_cast<std::int64_t>(b) < core.pool.num_blocks(); ++b) {
    std::uint32_t& node = core.pool.record(b).node;
    if (node == kNoLink) continue;
    if (core.pool.record(b).state == BlockState::kCached) core.pool.uncache(b);
    tree.hide(node, b);
    tree.detach(std::exchange(node, kNoLink), b);
  }
  for (SeqRow& row : core.rows.rows()) {
    row.chain = {};
    row.origin.detached = true;
  }
}

}  // namespace detail
KVPAGE_END_NAMESPACE
