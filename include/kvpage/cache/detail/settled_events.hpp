/// \file Events of a transaction, read from its undo log when it is settled: what was rolled back was never reported.
#pragma once

#include <kvpage/cache/detail/allocator_core.hpp>

#include <optional>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <class Core>
std::uint64_t content_key(const Core& core, std::uint32_t b) {
  if constexpr (Core::kIndexed) {
    const std::uint32_t node = core.pool.record(b).node;
    return node == kNoLink ? 0 : core.index.tree()[node].key.lo;
  } else {
    static_cast<void>(core), static_cast<void>(b);
    return 0;
  }
}

/// The sequence that the entries at the current position of the log are about: every operation logs its row before it moves blocks.
template <class Core>
class EntrySeq {
 public:
  explicit EntrySeq(Core& core) noexcept : core_(core) {}

  /// The entry at `position` is next.
  void advance(std::uint64_t position) {
    const UndoEntry& e = core_.log.at(position);
    switch (e.kind()) {
      case UndoKind::kStart: core_.rows.row(e.row()).reported_generation = e.block(); [[fallthrough]];
      case UndoKind::kDelete:
      case UndoKind::kPop:
      case UndoKind::kSet:
      case UndoKind::kFirstLive:
      case UndoKind::kDropFront:
      case UndoKind::kChain: set_row(e.row()); return;
      case UndoKind::kResize: set_row(e.block()); return;
      case UndoKind::kTakeClean:
      case UndoKind::kTakeVictim:
      case UndoKind::kDropRef:
      case UndoKind::kDropToClean:
      case UndoKind::kDropToPending:
        if (e.group() != 0) seq_ = {};
        return;
      case UndoKind::kAddRef:
        if (becomes_external(position)) seq_ = {};
        return;
      default: return;
    }
  }
  [[nodiscard]] SeqId seq() const noexcept { return seq_; }

 private:
  void set_row(std::uint32_t slot) noexcept { seq_ = {slot, core_.rows.row(slot).reported_generation}; }

  /// A second BlockRef says so right behind its reference.
  [[nodiscard]] bool becomes_external(std::uint64_t position) const {
    return position + 1 < core_.log.end() && core_.log.at(position + 1).kind() == UndoKind::kExternal;
  }

  Core& core_;
  SeqId seq_{};
};

/// The kind of the event of an undo entry, if it has one.
constexpr std::optional<CacheEventKind> settled_kind(UndoKind kind) noexcept {
  switch (kind) {
    case UndoKind::kTakeClean:
    case UndoKind::kTakeVictim: return CacheEventKind::kAlloc;
    case UndoKind::kAcquireCached:
    case UndoKind::kAcquirePending:
    case UndoKind::kAddRef: return CacheEventKind::kShare;
    case UndoKind::kDropRef: return CacheEventKind::kUnshare;
    case UndoKind::kDropToClean:
    case UndoKind::kDropToCached:
    case UndoKind::kDropToPending: return CacheEventKind::kFree;
    case UndoKind::kHide: return CacheEventKind::kHide;
    case UndoKind::kStart: return CacheEventKind::kSeqStart;
    case UndoKind::kDelete: return CacheEventKind::kSeqEnd;
    case UndoKind::kHit: return CacheEventKind::kHit;
    case UndoKind::kCopy: return CacheEventKind::kCopy;
    default: return std::nullopt;
  }
}

/// The event of the entry at `position`, which `seq` is about. `copy` counts the copies before it.
template <class Core>
CacheEvent settled_event(Core& core, const UndoEntry& e, CacheEventKind kind, StepId step, SeqId seq, std::size_t copy) {
  CacheEvent event{.kind = kind, .step = step, .block = BlockId{e.block()}, .seq = seq};
  if (kind == CacheEventKind::kCopy) {
    const CopyOp& op = core.lane_copies(core.lane())[copy];
    event.block = op.target;
    event.other = op.source;
    event.num_tokens = op.num_tokens;
  }
  if (kind == CacheEventKind::kSeqStart || kind == CacheEventKind::kSeqEnd || kind == CacheEventKind::kHit) event.block = kNoBlock;
  if (kind == CacheEventKind::kHit) event.num_tokens = static_cast<std::int64_t>(e.cookie()) * core.config.block_size;
  return event;
}

/// Sends the events of the open transaction, oldest first: victims lose their content before they are handed out.
template <class Core>
void emit_settled(Core& core, StepId step) {
  EntrySeq<Core> entry_seq{core};
  std::size_t num_copies = 0;
  for (std::uint64_t p = core.log_begin(); p < core.log.end(); ++p) {
    const UndoEntry& e = core.log.at(p);
    entry_seq.advance(p);
    if (e.kind() == UndoKind::kTakeVictim) {
      core.events.on_event({.kind = CacheEventKind::kEvict, .step = step, .block = BlockId{e.block()},
                            .content_key = content_key(core, e.block())});
    }
    const auto kind = settled_kind(e.kind());
    if (kind) core.events.on_event(settled_event(core, e, *kind, step, entry_seq.seq(), num_copies));
    if (e.kind() == UndoKind::kCopy) ++num_copies;
  }
}

}  // namespace detail
KVPAGE_END_NAMESPACE
