/// \file Steps: seal, commit, abort and retire, and the direct commit of a transaction that launches nothing.
#pragma once

#include <kvpage/cache/detail/settled_events.hpp>
#include <kvpage/cache/detail/undo_ops.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

inline std::int64_t number(StepId step) noexcept { return static_cast<std::int64_t>(step.value); }

/// What an entry means to the index once it is final: a hit is counted, a hidden block loses its node.
template <class Core>
[[gnu::noinline]] void settle_entry(Core& core, const UndoEntry& e) {
  auto& tree = core.index.tree();
  if (e.kind() == UndoKind::kHit) {
    // A hit that needs no block does not hold its node: an earlier entry can have freed it.
    for (std::uint32_t n = e.block(); !tree.is_root(n) && tree[n].alive; n = tree[n].parent) ++tree.retention(n).hits;
    return;
  }
  BlockRecord& r = core.pool.record(e.block());
  if (!r.hidden) return;  // settled by an earlier entry
  tree.detach(std::exchange(r.node, kNoLink), e.block());
  r.hidden = false;
  if (e.kind() == UndoKind::kTakeVictim) core.pool.policy().on_evicted(e.block());
}

/// From here on the transaction is not undone exactly: hidden blocks lose their nodes, events go out.
template <class Core>
[[gnu::always_inline]] inline void settle_open(Core& core, StepId step) {
  if constexpr (Core::kEvents) emit_settled(core, step);
  if constexpr (Core::kIndexed) {
    const std::uint64_t end = core.log.end();
    for (std::uint64_t p = core.log_begin(); p < end; ++p) {
      const UndoEntry& e = core.log.at(p);
      if (e.kind() == UndoKind::kHit || e.kind() == UndoKind::kTakeVictim || e.kind() == UndoKind::kHide) settle_entry(core, e);
    }
  }
}

template <class Core>
CacheResult<StepId> seal_open(Core& core) {
  if (core.steps.full()) return refuse(CacheRefusalKind::kBusy, 0, core.steps.size());
  const StepId step{core.next_step++};
  settle_open(core, step);
  core.steps.push({.id = step, .log_end = core.log.end(), .log_begin = core.log_begin(), .epoch = core.epoch,
                   .num_copies = static_cast<std::uint32_t>(core.num_copies), .stamp = core.stamp(), .lane = core.lane()});
  core.num_copies = 0;
  core.is_open = false;
  core.emit(CacheEventKind::kSeal, step);
  return step;
}

/// True when undoing a sealed step later could need something that this entry took, or when it made a sequence longer.
template <class Core>
bool claims(const Core& core, const UndoEntry& e) noexcept {
  switch (e.kind()) {
    case UndoKind::kResize: return old_tokens(e) < core.rows.row(e.block()).num_tokens;
    case UndoKind::kTakeClean:
    case UndoKind::kTakeVictim:
    case UndoKind::kAcquireCached:
    case UndoKind::kAcquirePending:
    case UndoKind::kAddRef:
    case UndoKind::kCreate: return true;
    case UndoKind::kDropRef:
    case UndoKind::kDropToClean:
    case UndoKind::kDropToPending: return e.group() != 0;
    default: return false;
  }
}

/// Commits behind a sealed step: only shrinking is allowed, so that the step can still be aborted.
template <class Core>
[[gnu::noinline]] CacheResult<void> commit_behind_sealed(Core& core) {
  if (core.num_copies > 0) return refuse(CacheRefusalKind::kNeedsSeal, core.num_copies, 0);
  const std::uint64_t newest = core.steps.newest().id.value;
  for (std::uint64_t p = core.log_begin(); p < core.log.end(); ++p) {
    if (claims(core, core.log.at(p))) return refuse(CacheRefusalKind::kNeedsSeal, 1, core.steps.num_sealed());
  }
  for (std::uint64_t p = core.log_begin(); p < core.log.end(); ++p) {
    const UndoEntry& e = core.log.at(p);
    if (e.kind() == UndoKind::kResize) core.rows.row(e.block()).settled_after = newest;
    if (e.kind() == UndoKind::kFirstLive) core.rows.row(e.row()).settled_after = newest;
    if (e.kind() == UndoKind::kWrite) note_write(core, e, core.stamp());
  }
  settle_open(core, StepId{});
  core.log.forget_from(core.log_begin());
  core.is_open = false;
  return {};
}

/// Commits without a launch.
template <class Core>
[[gnu::always_inline]] inline CacheResult<void> commit_open(Core& core) {
  if ((core.num_copies | core.steps.num_sealed()) != 0) return commit_behind_sealed(core);
  settle_open(core, StepId{});
  core.log.forget_all();
  core.is_open = false;
  return {};
}

/// References that the copies of a step hold on their sources end.
template <class Core>
void release_copies(Core& core, const StepRecord& step) {
  for (const CopyOp& copy : core.lane_copies(step.lane).first(step.num_copies)) {
    --core.pool.record(copy.source.value).copy_holds;
    core.drop_for_good(copy.source.value);
  }
}

template <class Core>
CacheResult<void> retire_step(Core& core, StepId step) {
  if (core.open()) return refuse(CacheRefusalKind::kBusy, 0, 1);
  if (core.steps.size() == 0 || core.steps.oldest().id != step || !core.steps.oldest().committed) {
    return refuse(CacheRefusalKind::kOutOfOrder, number(step), core.steps.size() == 0 ? 0 : number(core.steps.oldest().id));
  }
  const StepRecord record = core.steps.oldest();
  core.steps.pop_oldest();
  core.emit(CacheEventKind::kRetire, step);
  release_copies(core, record);
  core.drain(record.lane, kNoLane);
  return {};
}

template <class Core>
CacheResult<void> commit_step(Core& core, StepId step, bool retire) {
  if (core.open()) return refuse(CacheRefusalKind::kBusy, 0, 1);
  if (core.steps.num_sealed() == 0 || core.steps.oldest_sealed().id != step) {
    return refuse(CacheRefusalKind::kOutOfOrder, number(step),
                  core.steps.num_sealed() == 0 ? 0 : number(core.steps.oldest_sealed().id));
  }
  if (retire && core.steps.oldest().id != step) {
    return refuse(CacheRefusalKind::kOutOfOrder, number(step), number(core.steps.oldest().id));
  }
  core.log.settle(core.steps.oldest_sealed().log_end);
  core.steps.commit_oldest_sealed();
  core.emit(CacheEventKind::kCommit, step);
  if (core.steps.num_sealed() == 0) core.log.clear();
  return retire ? retire_step(core, step) : CacheResult<void>{};
}

/// Returns the number of sequences whose content the step may have overwritten.
template <class Core>
CacheResult<std::int64_t> abort_step(Core& core, StepId step) {
  if (core.open()) return refuse(CacheRefusalKind::kBusy, 0, 1);
  if (core.steps.num_sealed() == 0 || core.steps.newest().id != step) {
    return refuse(CacheRefusalKind::kOutOfOrder, number(step), core.steps.num_sealed() == 0 ? 0 : number(core.steps.newest().id));
  }
  const StepRecord record = core.steps.newest();
  core.steps.pop_newest();
  core.emit(CacheEventKind::kAbort, step);
  SealedUndo<Core> undo{core, record};
  while (core.log.end() > record.log_begin) undo.apply(core.log.pop());
  const std::int64_t num_lost = undo.mark_lost_rows();
  release_copies(core, record);
  core.drain(record.lane, core.steps.release_lane());
  return num_lost;
}

}  // namespace detail
KVPAGE_END_NAMESPACE
