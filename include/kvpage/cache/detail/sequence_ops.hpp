/// \file Sequence operations of the open transaction: create, grow, fork, truncate, release, release_before.
#pragma once

#include <kvpage/cache/detail/allocator_core.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <class Core>
CacheResult<SeqId> create_seq(Core& core, const SeqOrigin& origin) {
  if (core.rows.num_live() == core.rows.max_seqs()) {
    return refuse(CacheRefusalKind::kNoSeqSlot, core.rows.num_live() + 1, core.rows.max_seqs());
  }
  if constexpr (Core::kIndexed) {
    const std::int64_t known = core.index.namespaces().size();
    if (origin.name_space >= known) return refuse(CacheRefusalKind::kBadNamespace, origin.name_space, known);
  }
  if (const auto room = check_log(core, 3); !room) return Unexpected{room.error()};
  const std::uint32_t slot = core.rows.next_slot();
  if (core.steps.num_sealed() > 0) core.log.push({UndoKind::kSettled, slot, core.rows.row(slot).settled_after});
  core.log_row(UndoKind::kCreate, slot, 0, core.rows.row(slot).origin.packed(), core.rows.row(slot).generation);
  const SeqId seq = core.rows.open(origin);
  if constexpr (Core::kEvents) core.log_row(UndoKind::kStart, slot, 0, 0, seq.generation);
  return seq;
}

/// New tokens of the unfilled last block of every group are written in place, where it is exclusive already.
template <class Core>
void log_tail_writes(Core& core, std::uint32_t slot) {
  const SeqRow& row = core.rows.row(slot);
  const std::uint32_t tail = row.num_entries - 1;
  for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
    const BlockId b = tail < row.first_live[g] ? kNoBlock : core.rows.table(slot, g)[tail];
    if (b != kNoBlock && exclusive(core, b)) core.log_write(b.value, row.num_tokens % core.config.block_size);
  }
}

template <class Core>
CacheResult<void> grow_seq(Core& core, SeqId seq, std::int64_t num_tokens) {
  if (!core.rows.alive(seq)) return dead_seq(seq);
  SeqRow& row = core.rows.row(seq.slot);
  if (num_tokens < 0) return refuse(CacheRefusalKind::kBadLength, num_tokens, row.num_tokens);
  if (num_tokens <= row.num_tokens) return {};
  const std::int64_t groups = core.config.num_groups;
  const std::int64_t entries = (num_tokens - 1) / core.config.block_size + 1;
  if (entries > core.config.max_blocks_per_seq) {
    return refuse(CacheRefusalKind::kTableFull, entries, core.config.max_blocks_per_seq);
  }
  const std::int64_t need = (entries - row.num_entries) * groups;
  if (const auto blocks = check_blocks(core, need); !blocks) return blocks;
  const bool in_place = row.num_tokens % core.config.block_size != 0;
  if (const auto room = check_log(core, core.entries_for_takes(need) + 1 + (in_place ? groups : 0)); !room) return room;
  core.log_resize(seq.slot);
  if (in_place) log_tail_writes(core, seq.slot);
  for (std::uint32_t i = row.num_entries; i < entries; ++i) {
    for (std::int64_t g = 0; g < groups; ++g) core.rows.table(seq.slot, g)[i] = BlockId{core.take()};
  }
  core.set_length(row, num_tokens);
  return {};
}

template <class Core>
CacheResult<SeqId> fork_seq(Core& core, SeqId parent) {
  if (!core.rows.alive(parent)) return dead_seq(parent);
  const std::int64_t groups = core.config.num_groups;
  const SeqRow& source = core.rows.row(parent.slot);
  if (const auto room = check_log(core, source.num_entries * groups + 3); !room) return Unexpected{room.error()};
  const auto child = create_seq(core, source.origin);
  if (!child) return child;
  SeqRow& row = core.rows.row(child->slot);
  row.chain = source.chain;
  row.content_lost = source.content_lost;
  core.set_length(row, source.num_tokens);
  for (std::int64_t g = 0; g < groups; ++g) {
    row.first_live[g] = source.first_live[g];
    const BlockId* from = core.rows.table(parent.slot, g);
    BlockId* to = core.rows.table(child->slot, g);
    std::copy(from, from + row.num_entries, to);
    for (std::uint32_t i = row.first_live[g]; i < row.num_entries; ++i) core.acquire(to[i].value);
  }
  return child;
}

/// The published chain of a row never reaches past its tokens.
template <class Core>
void cut_chain(Core& core, std::uint32_t slot, std::int64_t num_blocks) {
  SeqRow& row = core.rows.row(slot);
  if (row.chain.num_blocks <= num_blocks) return;
  core.log_chain(slot);
  core.shorten_chain(row, num_blocks);
}

/// Shortens a live row; its tail goes first, so that a prefix is evicted after its extensions.
template <class Core>
void shorten(Core& core, std::uint32_t slot, std::int64_t num_tokens) {
  SeqRow& row = core.rows.row(slot);
  const std::uint32_t before = row.num_entries;
  cut_chain(core, slot, num_tokens / core.config.block_size);
  core.log_resize(slot);
  core.set_length(row, num_tokens);
  if (num_tokens == 0) row.content_lost = false;
  for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
    if (row.first_live[g] <= row.num_entries) continue;
    core.log_row(UndoKind::kFirstLive, slot, g, row.first_live[g]);
    row.first_live[g] = row.num_entries;
  }
  for (std::uint32_t i = before; i-- > row.num_entries;) {
    for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
      const BlockId b = core.rows.table(slot, g)[i];
      core.log_row(UndoKind::kPop, slot, g, i, b.value);
      if (b != kNoBlock) core.drop(b.value);
    }
  }
}

template <class Core>
CacheResult<void> truncate_seq(Core& core, SeqId seq, std::int64_t num_tokens) {
  if (!core.rows.alive(seq)) return dead_seq(seq);
  const SeqRow& row = core.rows.row(seq.slot);
  if (num_tokens < 0 || num_tokens > row.num_tokens) return refuse(CacheRefusalKind::kBadLength, num_tokens, row.num_tokens);
  for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
    // What the next token would look back at must still be there.
    const std::int64_t first_needed = std::max<std::int64_t>(0, num_tokens - core.config.window(g) + 1) / core.config.block_size;
    if (num_tokens > 0 && core.config.window(g) > 0 && first_needed < row.first_live[g]) {
      return refuse(CacheRefusalKind::kBadLength, num_tokens, row.first_live[g] * core.config.block_size);
    }
  }
  if (num_tokens == row.num_tokens) return {};
  const std::int64_t dropped = row.num_entries - ceil_div(num_tokens, core.config.block_size);
  if (const auto room = check_log(core, 2 * dropped * core.config.num_groups + 2 + core.config.num_groups); !room) return room;
  shorten(core, seq.slot, num_tokens);
  return {};
}

template <class Core>
CacheResult<void> release_seq(Core& core, SeqId seq) {
  if (!core.rows.alive(seq)) return dead_seq(seq);
  const std::int64_t entries = core.rows.row(seq.slot).num_entries;
  if (const auto room = check_log(core, 2 * entries * core.config.num_groups + 3 + core.config.num_groups); !room) return room;
  shorten(core, seq.slot, 0);
  core.rows.close(seq.slot);
  core.log_row(UndoKind::kDelete, seq.slot);
  return {};
}

template <class Core>
CacheResult<void> release_before(Core& core, SeqId seq, std::int64_t group, std::int64_t next_token) {
  if (!core.rows.alive(seq)) return dead_seq(seq);
  SeqRow& row = core.rows.row(seq.slot);
  if (group < 0 || group >= core.config.num_groups || next_token < 0 || next_token > row.num_tokens) {
    return refuse(CacheRefusalKind::kBadLength, next_token, row.num_tokens);
  }
  if (core.config.window(group) == 0) return {};
  // Query next_token sees keys next_token-W+1 .. next_token: an entry goes when its last token is older than that.
  const std::int64_t oldest_seen = std::max<std::int64_t>(0, next_token - core.config.window(group) + 1);
  const auto first = static_cast<std::uint32_t>(std::min<std::int64_t>(oldest_seen / core.config.block_size, row.num_entries));
  const std::uint32_t before = row.first_live[group];
  if (first <= before) return {};
  if (const auto room = check_log(core, 2 * static_cast<std::int64_t>(first - before) + 1); !room) return room;
  core.log_row(UndoKind::kFirstLive, seq.slot, group, before);
  row.first_live[group] = first;
  BlockId* table = core.rows.table(seq.slot, group);
  for (std::uint32_t i = before; i < first; ++i) {
    core.log_row(UndoKind::kDropFront, seq.slot, group, i, table[i].value);
    core.drop(std::exchange(table[i], kNoBlock).value);
  }
  return {};
}

}  // namespace detail
KVPAGE_END_NAMESPACE
