/// \file Events of a transaction, read from its undo log when it is settled: what was rolled back was never reported.
#pragma once

#include <kvpage/cache/detail/allocator_core.hpp>

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

/// The event of one undo entry; kind kReset = none.
template <class Core>
CacheEvent settled_event(const Core& core, const UndoEntry& e, StepId step) {
  CacheEvent event{.kind = CacheEventKind::kReset, .step = step, .block = BlockId{e.block()}};
  switch (e.kind()) {
    case UndoKind::kHit:
      event.kind = CacheEventKind::kHit;
      event.block = kNoBlock;
      event.num_tokens = static_cast<std::int64_t>(e.cookie()) * core.config.block_size;
      break;
    case UndoKind::kTakeClean:
    case UndoKind::kTakeVictim: event.kind = CacheEventKind::kAlloc; break;
    case UndoKind::kAcquireCached:
    case UndoKind::kAcquirePending:
    case UndoKind::kAddRef: event.kind = CacheEventKind::kShare; break;
    case UndoKind::kDropToClean:
    case UndoKind::kDropToCached:
    case UndoKind::kDropToPending: event.kind = CacheEventKind::kFree; break;
    case UndoKind::kCreate:
    case UndoKind::kDelete:
      event.kind = e.kind() == UndoKind::kCreate ? CacheEventKind::kSeqStart : CacheEventKind::kSeqEnd;
      event.block = kNoBlock;
      event.seq = {e.row(), core.rows.row(e.row()).generation};
      break;
    default: break;
  }
  return event;
}

/// Sends the events of the open transaction, oldest first: victims lose their content before they are handed out.
template <class Core>
void emit_settled(Core& core, StepId step) {
  std::int64_t copy = 0;
  for (std::uint64_t p = core.log_begin; p < core.log.end(); ++p) {
    const UndoEntry& e = core.log.at(p);
    if (e.kind() == UndoKind::kTakeVictim) {
      core.events.on_event({.kind = CacheEventKind::kEvict, .step = step, .block = BlockId{e.block()},
                            .content_key = content_key(core, e.block())});
    }
    if (e.kind() == UndoKind::kCopy) {
      const CopyOp& op = core.lane_copies(core.lane)[static_cast<std::size_t>(copy++)];
      core.events.on_event({.kind = CacheEventKind::kCopy, .step = step, .block = op.target, .other = op.source,
                            .num_tokens = op.num_tokens});
    }
    const CacheEvent event = settled_event(core, e, step);
    if (event.kind != CacheEventKind::kReset) core.events.on_event(event);
  }
}

}  // namespace detail
KVPAGE_END_NAMESPACE
