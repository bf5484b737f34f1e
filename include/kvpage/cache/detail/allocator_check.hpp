/// \file Whole-state checks of an allocator: the invariants, recounted from scratch, and a digest for comparing states.
#pragma once

#include <kvpage/cache/detail/prefix_check.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// References to b that tables hold; asserts that each table holds it at most once, always at the same index of its group.
template <class Core>
std::int64_t count_table_refs(const Core& core, std::uint32_t b) {
  std::int64_t count = 0;
  std::int64_t group = -1;
  std::uint32_t index = 0;
  for (std::uint32_t slot = 0; slot < core.rows.rows().size(); ++slot) {
    const SeqRow& row = core.rows.row(slot);
    if (!row.alive) continue;
    for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
      for (std::uint32_t i = row.first_live[g]; i < row.num_entries; ++i) {
        if (core.rows.table(slot, g)[i].value != b) continue;
        KVPAGE_ASSERT(group == -1 || (group == g && index == i), "a block has one group and one logical index in every table");
        group = g;
        index = i;
        ++count;
      }
    }
  }
  return count;
}

/// Counts of every block at once, in one pass over the tables, kept in the caller's scratch: the block's `ref` minus what is found.
template <class Core>
void check_tables(const Core& core) {
  std::int64_t live = 0;
  for (std::uint32_t slot = 0; slot < core.rows.rows().size(); ++slot) {
    const SeqRow& row = core.rows.row(slot);
    if (!row.alive) continue;
    ++live;
    KVPAGE_ASSERT(row.num_entries == ceil_div(row.num_tokens, core.config.block_size), "a table has ceil(tokens / block_size) entries");
    KVPAGE_ASSERT(row.chain.num_blocks * core.config.block_size <= row.num_tokens, "only stored tokens are published");
    for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
      KVPAGE_ASSERT(row.first_live[g] <= row.num_entries, "first_live lies within the table");
      KVPAGE_ASSERT(core.config.window(g) > 0 || row.first_live[g] == 0, "only window groups drop their front");
      for (std::uint32_t i = 0; i < row.num_entries; ++i) {
        const BlockId b = core.rows.table(slot, g)[i];
        KVPAGE_ASSERT((b == kNoBlock) == (i < row.first_live[g]), "an entry is empty exactly before first_live");
        if (b == kNoBlock) continue;
        KVPAGE_ASSERT(static_cast<std::int64_t>(b.value) < core.pool.num_blocks(), "a table names blocks of the pool");
        KVPAGE_ASSERT(core.pool.record(b.value).state == BlockState::kUsed, "a block in a table is used");
      }
    }
  }
  KVPAGE_ASSERT(live == core.rows.num_live(), "the number of live sequences is their count");
}

template <class Core>
void check_blocks_state(const Core& core) {
  std::int64_t used = 0;
  std::int64_t cached = 0;
  for (std::uint32_t b = 0; static_cast<std::int64_t>(b) < core.pool.num_blocks(); ++b) {
    const BlockRecord& r = core.pool.record(b);
    used += r.state == BlockState::kUsed ? 1 : 0;
    cached += r.state == BlockState::kCached ? 1 : 0;
    KVPAGE_ASSERT((r.ref > 0) == (r.state == BlockState::kUsed), "a block is used exactly while it is referenced");
    KVPAGE_ASSERT(r.state != BlockState::kCached || (r.node != kNoLink && !r.hidden), "a cached block can be found");
    KVPAGE_ASSERT(core.open() || !r.hidden, "nodes are hidden only by an open transaction");
    std::int64_t refs = count_table_refs(core, b) + core.pool.record(b).external + r.copy_holds;
    if constexpr (Core::kIndexed) refs += core.pins.per_block[b];
    KVPAGE_ASSERT(refs == r.ref, "a reference count is the number of holders");
  }
  KVPAGE_ASSERT(used == core.pool.num_used() && cached == core.pool.num_cached(), "the counters are the recounted numbers");
  KVPAGE_ASSERT(cached == core.pool.policy().size(), "the policy holds exactly the cached blocks");
}

/// Clean and pending lists hold exactly the blocks of their state; together with the counters the pool adds up.
template <class Core>
void check_lists(const Core& core) {
  std::int64_t listed = 0;
  core.pool.clean().for_each_checked(core.pool.records(), [&](std::uint32_t b) {
    KVPAGE_ASSERT(core.pool.record(b).state == BlockState::kClean, "the clean list holds clean blocks");
    ++listed;
  });
  for (std::uint8_t lane = 0; lane < kNumLanes; ++lane) {
    core.pool.lane(lane).for_each_checked(core.pool.records(), [&](std::uint32_t b) {
      KVPAGE_ASSERT(core.pool.record(b).state == pending_in(static_cast<std::uint8_t>(lane)), "a lane holds pending blocks");
      ++listed;
    });
  }
  KVPAGE_ASSERT(listed + core.pool.num_cached() + core.pool.num_used() == core.pool.num_blocks(), "every block is in one state");
  core.pool.policy().check();
}

template <class Core>
void check_all(const Core& core) {
  check_tables(core);
  check_blocks_state(core);
  check_lists(core);
  const CapacitySnapshot now = core.capacity();
  KVPAGE_ASSERT(now.clean + now.cached + now.used + now.pending == now.num_blocks, "the four states add up to the pool");
  KVPAGE_ASSERT(core.open() || core.steps.num_sealed() > 0 || core.log.empty(), "an idle allocator has an empty undo log");
  KVPAGE_ASSERT(core.open() || core.steps.size() > 0 || now.pending == 0, "blocks wait only while a step is in flight");
  if constexpr (Core::kIndexed) check_index(core);
}

template <class Core>
std::uint64_t digest_all(const Core& core) {
  Digest digest;
  for (std::uint32_t b = 0; static_cast<std::int64_t>(b) < core.pool.num_blocks(); ++b) {
    const BlockRecord& r = core.pool.record(b);
    digest.fold(r.ref | (std::uint64_t{r.copy_holds} << 32) | (std::uint64_t{static_cast<std::uint8_t>(r.state)} << 48) |
                (std::uint64_t{r.hidden} << 56));
    digest.fold(core.pool.record(b).external | (std::uint64_t{core.pool.record(b).node} << 32));
  }
  core.pool.clean().for_each_checked(core.pool.records(), [&](std::uint32_t b) { digest.fold(b); });
  for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
    digest.fold(lane);
    core.pool.lane(lane).for_each_checked(core.pool.records(), [&](std::uint32_t b) { digest.fold(b); });
  }
  digest.fold(core.pool.policy().digest());
  for (const std::uint32_t slot : core.rows.free_slots()) digest.fold(slot);
  for (std::uint32_t slot = 0; slot < core.rows.rows().size(); ++slot) {
    const SeqRow& row = core.rows.row(slot);
    if (!row.alive) continue;
    digest.fold(static_cast<std::uint64_t>(row.num_tokens));
    digest.fold(core.chain_known(row.chain) ? row.chain.node | (std::uint64_t{row.chain.num_blocks} << 32) : kNoLink);  // lost = empty
    digest.fold(row.origin.packed() | (std::uint64_t{row.content_lost} << 32));
    for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
      digest.fold(row.first_live[g]);
      for (std::uint32_t i = 0; i < row.num_entries; ++i) digest.fold(core.rows.table(slot, g)[i].value);
    }
  }
  digest.fold(static_cast<std::uint64_t>(core.open() ? core.num_copies : 0));
  if constexpr (Core::kIndexed) digest.fold(digest_index(core));
  return digest.value;
}

}  // namespace detail
KVPAGE_END_NAMESPACE
