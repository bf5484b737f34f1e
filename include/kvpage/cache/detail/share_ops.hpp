/// \file share: starts a sequence from a prefix hit.
#pragma once

#include <kvpage/cache/detail/eviction_ops.hpp>
#include <kvpage/cache/detail/undo_ops.hpp>
#include <kvpage/cache/prefix_hit.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Calls fn(node, index, group, block) for every block that a hit of `num_blocks` blocks ending at `node` needs, deepest first.
/// Stops and returns false as soon as fn does.
template <class Index, class Fn>
bool for_each_needed(const Index& index, const BlockAllocatorConfig& config, std::uint32_t node, std::uint32_t num_blocks, Fn&& fn) {
  for (std::uint32_t i = num_blocks; i-- > 0; node = index.tree()[node].parent) {
    for (std::int64_t g = 0; g < config.num_groups; ++g) {
      if (i < index.first_needed(g, num_blocks * config.block_size)) continue;
      if (!fn(node, i, g, index.tree()[node].block[g])) return false;
    }
  }
  return true;
}

/// True when every block that the hit needs is still findable.
template <class Core>
bool hit_is_fresh(const Core& core, const PrefixHit& hit) {
  const auto& tree = core.index.tree();
  if (hit.epoch != core.epoch || !tree.alive(hit.node, hit.generation)) return false;
  return for_each_needed(core.index, core.config, hit.node, hit.num_blocks,
                         [&](std::uint32_t node, std::uint32_t, std::int64_t g, std::uint32_t) { return tree[node].visible(g); });
}

template <class Core>
void attach_full_blocks(Core& core, std::uint32_t slot, const PrefixHit& hit) {
  SeqRow& row = core.rows.row(slot);
  for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
    const auto first = static_cast<std::uint32_t>(core.index.first_needed(g, hit.num_blocks * core.config.block_size));
    std::fill_n(core.rows.table(slot, g), std::min(first, hit.num_blocks), kNoBlock);
    core.log_row(UndoKind::kFirstLive, slot, g, row.first_live[g]);
    row.first_live[g] = std::min(first, hit.num_blocks);
  }
  for_each_needed(core.index, core.config, hit.node, hit.num_blocks,
                  [&](std::uint32_t, std::uint32_t i, std::int64_t g, std::uint32_t b) {
                    core.rows.table(slot, g)[i] = BlockId{b};
                    core.acquire(b);
                    return true;
                  });
  core.log_chain(slot);
  if (hit.num_blocks > 0) row.chain = {hit.node, hit.num_blocks, hit.generation};
  core.log_resize(slot);
  core.set_length(row, hit.num_blocks * core.config.block_size);
  core.log.push({UndoKind::kHit, hit.node, hit.num_blocks});
}

/// True when the partial leaf is matched to its end and nobody refers to it: the sequence can go on writing in it.
template <class Core>
bool can_take_over(const Core& core, const PrefixHit& hit) {
  const PrefixNode& node = core.index.tree()[hit.partial_node];
  if (node.num_tokens == core.config.block_size || hit.partial_tokens != node.num_tokens) return false;
  for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
    if (core.pool.record(node.block[g]).ref > 0) return false;
  }
  return true;
}

template <class Core>
void take_over_leaf(Core& core, std::uint32_t slot, const PrefixHit& hit) {
  for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
    const std::uint32_t b = core.index.tree()[hit.partial_node].block[g];
    core.rows.table(slot, g)[hit.num_blocks] = BlockId{b};
    core.acquire(b);
    core.pool.record(b).hidden = true;
    core.index.tree().hide(hit.partial_node, b);
    core.log.push({UndoKind::kHide, b});
  }
}

/// Copies the common start into private blocks. False, with nothing changed, when no block or copy is left.
template <class Core>
bool copy_partial(Core& core, std::uint32_t slot, const PrefixHit& hit) {
  const std::int64_t groups = core.config.num_groups;
  const std::uint64_t before = core.log.end();
  if (core.num_copies + groups > core.config.max_copies) return false;
  // The sources are held first, so that none of them can be chosen as its own copy's block.
  for (std::int64_t g = 0; g < groups; ++g) core.acquire(core.index.tree()[hit.partial_node].block[g]);
  if (core.pool.available() < groups) {
    undo_to(core, before);
    return false;
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    const BlockId source{core.index.tree()[hit.partial_node].block[g]};
    const BlockId target{core.take()};
    core.rows.table(slot, g)[hit.num_blocks] = target;
    record_copy(core, source, target, hit.partial_tokens);
  }
  return true;
}

template <class Core>
bool partial_is_usable(const Core& core, const PrefixHit& hit) {
  const auto& tree = core.index.tree();
  if (hit.partial_tokens == 0 || hit.num_blocks >= core.config.max_blocks_per_seq) return false;
  if (!tree.alive(hit.partial_node, hit.partial_generation)) return false;
  for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
    if (!tree[hit.partial_node].visible(g)) return false;
  }
  return true;
}

template <class Core>
CacheResult<SharedPrefix> share_hit(Core& core, SeqId seq, const PrefixHit& hit) {
  if (!core.rows.alive(seq)) return dead_seq(seq);
  SeqRow& row = core.rows.row(seq.slot);
  if (row.num_tokens != 0) return refuse(CacheRefusalKind::kNotEmpty, 0, row.num_tokens);
  if (row.origin.name_space != hit.name_space.value) {
    return refuse(CacheRefusalKind::kBadNamespace, hit.name_space.value, row.origin.name_space);
  }
  if (row.origin.detached || !hit_is_fresh(core, hit)) return refuse(CacheRefusalKind::kStaleHit, hit.num_tokens, 0);
  if (hit.num_blocks > core.config.max_blocks_per_seq) {
    return refuse(CacheRefusalKind::kTableFull, hit.num_blocks, core.config.max_blocks_per_seq);
  }
  const std::int64_t groups = core.config.num_groups;
  const std::int64_t entries = (hit.num_blocks + 4) * groups + core.entries_for_takes(groups) + 4;
  if (const auto room = check_log(core, entries); !room) return Unexpected{room.error()};
  attach_full_blocks(core, seq.slot, hit);
  SharedPrefix shared{.num_tokens = row.num_tokens, .copied_tokens = 0};
  if (!partial_is_usable(core, hit)) return shared;
  if (can_take_over(core, hit)) {
    take_over_leaf(core, seq.slot, hit);
  } else if (copy_partial(core, seq.slot, hit)) {
    shared.copied_tokens = hit.partial_tokens;
  } else {
    return shared;
  }
  core.log_resize(seq.slot);
  core.set_length(row, row.num_tokens + hit.partial_tokens);
  shared.num_tokens = row.num_tokens;
  return shared;
}

}  // namespace detail
KVPAGE_END_NAMESPACE
