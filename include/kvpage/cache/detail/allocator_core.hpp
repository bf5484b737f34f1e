/// \file AllocatorCore: the parts of a BlockAllocator side by side, and the few moves that concern more than one of them.
#pragma once

#include <kvpage/base/copy_op.hpp>
#include <kvpage/cache/cache_events.hpp>
#include <kvpage/cache/cache_refusal.hpp>
#include <kvpage/cache/capacity_snapshot.hpp>
#include <kvpage/cache/detail/pin_table.hpp>
#include <kvpage/cache/detail/seq_rows.hpp>
#include <kvpage/cache/detail/step_ring.hpp>
#include <kvpage/cache/detail/write_marks.hpp>
#include <kvpage/cache/no_index.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <class Core>
class Eviction;

template <class Index, EvictionPolicy Evict, EventSink Events>
struct AllocatorCore {
  using IndexType = Index;
  static constexpr bool kIndexed = Index::kEnabled;
  static constexpr bool kEvents = Events::kEnabled;
  static constexpr bool kNeedsLeaves = Evict::kNeedsLeaves;

  BlockAllocatorConfig config{};
  BlockPool<Evict> pool{};
  SeqRows rows{};
  UndoLog log{};
  StepRing steps{};
  WriteMarks writes{};
  Index index{};
  [[no_unique_address]] Events events{};
  PinTable pins{};
  std::span<CopyOp> copies{};  // [kNumLanes, max_copies]
  std::int64_t num_copies = 0;   ///< of the open transaction; 0 between transactions
  std::uint64_t transaction = 0;  ///< serial of the newest transaction
  std::uint64_t next_step = 1;
  std::uint64_t epoch = 0;
  bool is_open = false;

  void attach(Arena& arena, const BlockAllocatorConfig& full, const typename Index::Options& options, Evict policy) {
    config = full;
    pool.attach(arena, config.num_blocks, std::move(policy));
    rows.attach(arena, config);
    log.attach(arena, config.max_log_entries);
    writes.attach(arena, config.num_blocks);
    copies = arena.cut<CopyOp>(static_cast<std::int64_t>(kNumLanes) * config.max_copies);
    index.attach(arena, config, options);
    if constexpr (kIndexed) pins.attach(arena, config.max_pins, config.num_blocks);
  }

  [[nodiscard]] bool open() const noexcept { return is_open; }
  [[nodiscard]] std::uint32_t stamp() const noexcept { return static_cast<std::uint32_t>(transaction); }
  /// First undo entry of the open transaction: those before it belong to sealed steps.
  [[nodiscard]] std::uint64_t log_begin() const noexcept {
    return steps.num_sealed() > 0 ? steps.newest().log_end : log.begin();
  }
  /// Lane of the open transaction's copies and, once it is sealed, of the blocks that wait for it.
  [[nodiscard]] std::uint8_t lane() const noexcept { return steps.free_lane(); }
  [[nodiscard]] std::span<CopyOp> lane_copies(std::uint8_t of) noexcept {
    return copies.subspan(static_cast<std::size_t>(of * config.max_copies), static_cast<std::size_t>(config.max_copies));
  }
  [[nodiscard]] std::span<const CopyOp> lane_copies(std::uint8_t of) const noexcept {
    return copies.subspan(static_cast<std::size_t>(of * config.max_copies), static_cast<std::size_t>(config.max_copies));
  }

  /// What the policy learns about block b when it becomes cached.
  [[nodiscard]] CachedBlockInfo info(std::uint32_t b) const {
    if constexpr (kIndexed) {
      return index_info(b);
    } else {
      static_cast<void>(b);
      return {};
    }
  }

  [[nodiscard]] CachedBlockInfo index_info(std::uint32_t b) const {
    const auto& tree = index.tree();
    const std::uint32_t n = pool.record(b).node;
    const auto& kept = tree.retention(n);
    const bool full = config.window(tree.group_of(n, b)) == 0;
    return {.content_key = tree[n].key.lo, .expires_at_ns = kept.expires_at_ns, .recompute_ns = kept.recompute_ns, .hits = kept.hits,
            .depth = kept.depth, .priority = kept.priority, .leaf = !full || tree[n].solid_children == 0};
  }

  /// A block for new content. Requires: capacity and undo entries were checked.
  [[gnu::always_inline]] std::uint32_t take(std::uint8_t external = 0) {
    if constexpr (kIndexed) {
      if (pool.num_clean() == 0) return take_victim(external);
    }
    return pool.take_clean(log, stamp(), external);
  }
  [[gnu::noinline]] std::uint32_t take_victim(std::uint8_t external) {
    Eviction<AllocatorCore> eviction{*this};
    const std::uint32_t b = eviction.pick();
    pool.take_victim(b, log, stamp(), external);
    eviction.hide(b);
    return b;
  }

  /// One reference more or less, undone with the open transaction ...
  void acquire(std::uint32_t b) { log.push(pool.acquire(b)); }
  void drop(std::uint32_t b) { log.push(let_go(b)); }
  /// ... or undone by the entry that this returns ...
  [[gnu::always_inline]] UndoEntry let_go(std::uint32_t b) {
    return pool.drop(b, steps.release_lane(), [this](std::uint32_t x) { return info(x); });
  }
  /// ... or final.
  void acquire_for_good(std::uint32_t b, SeqId seq = {}) {
    pool.acquire(b);
    if constexpr (kEvents) events.on_event({.kind = CacheEventKind::kShare, .block = BlockId{b}, .seq = seq});
  }
  void drop_for_good(std::uint32_t b, SeqId seq = {}) {
    let_go(b);
    if constexpr (kEvents) {
      const auto kind = pool.record(b).ref > 0 ? CacheEventKind::kUnshare : CacheEventKind::kFree;
      events.on_event({.kind = kind, .block = BlockId{b}, .seq = seq});
    }
  }
  void drain(std::uint8_t from, std::uint8_t next) {
    pool.drain(from, next, [this](std::uint32_t x) { return info(x); });
  }

  /// An event of a step as a whole.
  void emit(CacheEventKind kind, StepId step) {
    if constexpr (kEvents) {
      events.on_event({.kind = kind, .step = step});
    } else {
      static_cast<void>(kind), static_cast<void>(step);
    }
  }

  /// Undo entries that `blocks` takes can need.
  [[nodiscard]] std::int64_t entries_for_takes(std::int64_t blocks) const noexcept {
    if constexpr (kIndexed) {
      // One each, one per group when a parent becomes a leaf, and one per orphan that a victim hides.
      const std::int64_t orphans = pool.num_blocks() - pool.available();
      return blocks * (Evict::kNeedsLeaves ? 1 + config.num_groups : 1) + orphans;
    } else {
      return blocks;
    }
  }

  void log_row(UndoKind kind, std::uint32_t slot, std::int64_t group = 0, std::uint32_t position = 0, std::uint32_t block = 0) {
    log.push(UndoEntry::of_row(kind, slot, group, position, block));
  }
  void log_resize(std::uint32_t slot) {
    const SeqRow& row = rows.row(slot);
    log.push({UndoKind::kResize, slot, static_cast<std::uint64_t>(row.num_tokens), static_cast<std::uint8_t>(row.content_lost)});
  }

  /// Tokens of block b from `offset` on are written in place. What this transaction took itself is marked by its stamp.
  void log_write(std::uint32_t b, std::int64_t offset) {
    if (pool.record(b).taken_stamp != stamp()) log.push({UndoKind::kWrite, b, static_cast<std::uint64_t>(offset)});
  }

  void log_chain(std::uint32_t slot) {
    const PublishedChain& chain = rows.row(slot).chain;
    log_row(UndoKind::kChain, slot, 0, chain_known(chain) ? chain.num_blocks : 0, chain.node);
  }
  void set_chain(SeqRow& row, std::uint32_t node, std::uint32_t num_blocks) const {
    row.chain = {num_blocks == 0 ? kNoLink : node, num_blocks, 0};
    if constexpr (kIndexed) {
      if (row.chain.node != kNoLink) row.chain.generation = index.tree()[node].generation;
    }
  }
  /// False when the chain's node is gone: possible only for blocks behind every window.
  [[nodiscard]] bool chain_known(const PublishedChain& chain) const {
    if constexpr (kIndexed) return chain.num_blocks == 0 || index.tree().alive(chain.node, chain.generation);
    return true;
  }
  /// Cuts the chain to at most num_blocks. A chain that lost its node starts again at its root.
  void shorten_chain(SeqRow& row, std::int64_t num_blocks) const {
    if (row.chain.num_blocks <= num_blocks) return;
    if constexpr (kIndexed) {
      const std::uint32_t up = row.chain.num_blocks - static_cast<std::uint32_t>(num_blocks);
      const bool known = chain_known(row.chain);
      set_chain(row, known ? index.tree().ancestor(row.chain.node, up) : kNoLink, known ? static_cast<std::uint32_t>(num_blocks) : 0);
    }
  }

  void set_length(SeqRow& row, std::int64_t num_tokens) const noexcept {
    row.num_tokens = num_tokens;
    row.num_entries = static_cast<std::uint32_t>(ceil_div(num_tokens, config.block_size));
  }

  [[nodiscard]] CapacitySnapshot capacity() const noexcept {
    return {.num_blocks = pool.num_blocks(), .clean = pool.num_clean(), .cached = pool.num_cached(), .used = pool.num_used(),
            .pending = pool.num_pending(), .pinned = pins.num_blocks, .num_seqs = rows.num_live(), .epoch = epoch};
  }
};

/// True when one table alone refers to b and no prefix hit can find it: it may be written in place.
template <class Core>
bool exclusive(const Core& core, BlockId b) {
  const BlockRecord& r = core.pool.record(b.value);
  return r.ref - r.copy_holds == 1 && (core.pool.record(b.value).node == kNoLink || r.hidden);
}

inline Unexpected<CacheRefusal> dead_seq(SeqId seq) noexcept { return refuse(CacheRefusalKind::kDeadSeq, seq.slot, 0); }

/// Refuses when fewer than `need` undo entries are free.
template <class Core>
CacheResult<void> check_log(const Core& core, std::int64_t need) {
  if (core.log.room() < need) return refuse(CacheRefusalKind::kLogFull, need, core.log.room());
  return {};
}

/// Refuses when fewer than `need` blocks are available.
template <class Core>
CacheResult<void> check_blocks(const Core& core, std::int64_t need) {
  if (core.pool.available() < need) return refuse(CacheRefusalKind::kNoBlocks, need, core.pool.available());
  return {};
}

}  // namespace detail
KVPAGE_END_NAMESPACE
