/// \file Block operations of the open transaction: raw references, and make_writable, the one copy-on-write primitive.
#pragma once

#include <kvpage/cache/detail/sequence_ops.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <class Core>
[[gnu::always_inline]] inline CacheResult<BlockRef> allocate_block(Core& core) {
  const bool clean = core.pool.num_clean() > 0;
  if (!clean && core.pool.available() == 0) return refuse(CacheRefusalKind::kNoBlocks, 1, 0);
  if (const auto room = check_log(core, clean ? 1 : core.entries_for_takes(1)); !room) return Unexpected{room.error()};
  const std::uint32_t b = core.take(1);
  return BlockRef{BlockId{b}, core.pool.record(b).generation};
}

template <class Core>
bool holds(const Core& core, BlockId id, std::uint32_t generation) {
  return static_cast<std::int64_t>(id.value) < core.pool.num_blocks() && core.pool.record(id.value).generation == generation &&
         core.pool.record(id.value).external > 0;
}

template <class Core>
CacheResult<BlockRef> share_block(Core& core, const BlockRef& ref) {
  if (!holds(core, ref.id(), ref.generation())) return refuse(CacheRefusalKind::kNotHeld, 1, 0);
  if (const auto room = check_log(core, 2); !room) return Unexpected{room.error()};
  core.acquire(ref.id().value);
  ++core.pool.record(ref.id().value).external;
  core.log.push({UndoKind::kExternal, ref.id().value});
  return BlockRef{ref.id(), ref.generation()};
}

/// One BlockRef less, in one entry: the block of a BlockRef is in no index, so its drop needs no cookie.
template <class Core>
[[gnu::always_inline]] inline void drop_external(Core& core, std::uint32_t b) {
  const std::uint32_t generation = core.pool.record(b).generation;
  const UndoKind kind = core.let_go(b).kind();
  KVPAGE_ASSERT(kind != UndoKind::kDropToCached, "the block of a BlockRef is never indexed");
  core.log.push({kind, b, generation, 1});
}

template <class Core>
[[gnu::always_inline]] inline CacheResult<void> free_block(Core& core, BlockRef&& ref) {
  if (!holds(core, ref.id(), ref.generation())) return refuse(CacheRefusalKind::kNotHeld, 1, 0);
  if (const auto room = check_log(core, 1); !room) return room;
  --core.pool.record(ref.id().value).external;
  drop_external(core, ref.id().value);
  ref = BlockRef{};
  return {};
}

/// Frees raw ids, all or none: an id may occur as often as it is held.
template <class Core>
CacheResult<void> unref_blocks(Core& core, std::span<const BlockId> ids) {
  if (const auto room = check_log(core, static_cast<std::int64_t>(ids.size())); !room) return room;
  std::size_t counted = 0;
  for (; counted < ids.size(); ++counted) {
    const std::uint32_t b = ids[counted].value;
    if (static_cast<std::int64_t>(b) >= core.pool.num_blocks() || core.pool.record(b).external == 0) break;
    --core.pool.record(b).external;
  }
  if (counted < ids.size()) {
    for (std::size_t i = counted; i-- > 0;) ++core.pool.record(ids[i].value).external;
    return refuse(CacheRefusalKind::kNotHeld, static_cast<std::int64_t>(ids.size()), static_cast<std::int64_t>(counted));
  }
  for (const BlockId id : ids) drop_external(core, id.value);
  return {};
}

/// Records a copy into `target`. The caller's reference to `source` goes over to the copy, until its step retires.
template <class Core>
void record_copy(Core& core, BlockId source, BlockId target, std::int64_t num_tokens) {
  core.lane_copies(core.lane())[static_cast<std::size_t>(core.num_copies++)] = {source, target, num_tokens};
  ++core.pool.record(source.value).copy_holds;
  core.log.push({UndoKind::kCopy, source.value});
}

/// Which entries a write to [first_token, last_token) touches, and how many of their blocks must be replaced or are written in place.
struct WriteRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::int64_t replaced = 0;
  std::int64_t in_place = 0;
};

template <class Core>
WriteRange write_range(const Core& core, std::uint32_t slot, std::int64_t first_token, std::int64_t last_token) {
  const SeqRow& row = core.rows.row(slot);
  WriteRange range{static_cast<std::uint32_t>(first_token / core.config.block_size),
                   static_cast<std::uint32_t>(ceil_div(last_token, core.config.block_size)), 0, 0};
  for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
    const BlockId* table = core.rows.table(slot, g);
    for (std::uint32_t i = std::max(range.begin, row.first_live[g]); i < range.end; ++i) {
      ++(exclusive(core, table[i]) ? range.in_place : range.replaced);
    }
  }
  return range;
}

/// Replaces one shared or indexed entry by a private block and copies what the coming write will not overwrite.
template <class Core>
void replace_entry(Core& core, std::uint32_t slot, std::int64_t group, std::uint32_t i, std::int64_t first_token,
                   std::int64_t last_token) {
  BlockId& entry = core.rows.table(slot, group)[i];
  const BlockId old = entry;
  core.log_row(UndoKind::kSet, slot, group, i, old.value);
  entry = BlockId{core.take()};
  const std::int64_t begin = i * core.config.block_size;
  const std::int64_t end = std::min(begin + core.config.block_size, core.rows.row(slot).num_tokens);
  const std::int64_t kept = last_token >= end ? std::max<std::int64_t>(0, first_token - begin) : end - begin;
  if (kept > 0) {
    record_copy(core, old, entry, kept);
  } else {
    core.drop(old.value);
  }
}

/// Refuses when the entries of the range that must be replaced cannot be.
template <class Core>
CacheResult<void> check_replacements(const Core& core, const SeqRow& row, const WriteRange& range, std::int64_t last_token) {
  // A published block behind the range would be findable while what it builds on is rewritten.
  if (row.chain.num_blocks > range.end) {
    return refuse(CacheRefusalKind::kBadLength, last_token, row.chain.num_blocks * core.config.block_size);
  }
  if (const auto blocks = check_blocks(core, range.replaced); !blocks) return blocks;
  if (core.num_copies + range.replaced > core.config.max_copies) {
    return refuse(CacheRefusalKind::kCopiesFull, core.num_copies + range.replaced, core.config.max_copies);
  }
  return check_log(core, core.entries_for_takes(range.replaced) + 3 * range.replaced + 1 + range.in_place);
}

template <class Core>
CacheResult<void> make_writable(Core& core, SeqId seq, std::int64_t first_token, std::int64_t last_token) {
  if (!core.rows.alive(seq)) return dead_seq(seq);
  const SeqRow& row = core.rows.row(seq.slot);
  if (first_token < 0 || first_token > last_token || last_token > row.num_tokens) {
    return refuse(CacheRefusalKind::kBadLength, last_token, row.num_tokens);
  }
  if (first_token == last_token) return {};
  const WriteRange range = write_range(core, seq.slot, first_token, last_token);
  const auto can = range.replaced > 0 ? check_replacements(core, row, range, last_token) : check_log(core, range.in_place);
  if (!can) return can;
  if (range.replaced > 0) cut_chain(core, seq.slot, range.begin);
  for (std::uint32_t i = range.end; i-- > range.begin;) {
    for (std::int64_t g = 0; g < core.config.num_groups; ++g) {
      if (i < row.first_live[g]) continue;
      const BlockId b = core.rows.table(seq.slot, g)[i];
      if (exclusive(core, b)) {
        core.log_write(b.value, std::max<std::int64_t>(0, first_token - i * core.config.block_size));
      } else {
        replace_entry(core, seq.slot, g, i, first_token, last_token);
      }
    }
  }
  return {};
}

}  // namespace detail
KVPAGE_END_NAMESPACE
