/// \file The two ways back: exactly, while a transaction is open, and logically, after its step was sealed.
#pragma once

#include <kvpage/cache/detail/block_ops.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

inline std::int64_t old_tokens(const UndoEntry& e) noexcept { return static_cast<std::int64_t>(e.cookie()); }

/// Restores the fields that a structural entry changed; the list moves around it have entries of their own.
template <class Core>
void undo_structural(Core& core, const UndoEntry& e) {
  SeqRows& rows = core.rows;
  switch (e.kind()) {
    case UndoKind::kCreate:
      rows.close(e.row());
      rows.restore_identity(e.row(), e.block(), SeqOrigin::unpack(e.index()));
      return;
    case UndoKind::kSettled: rows.row(e.block()).settled_after = e.cookie(); return;
    case UndoKind::kDelete: rows.reopen(e.row()); return;
    case UndoKind::kResize:
      core.set_length(rows.row(e.block()), old_tokens(e));
      rows.row(e.block()).content_lost = e.group() != 0;
      return;
    case UndoKind::kPop:
    case UndoKind::kSet:
    case UndoKind::kDropFront: rows.table(e.row(), e.group())[e.index()] = BlockId{e.block()}; return;
    case UndoKind::kFirstLive: rows.row(e.row()).first_live[e.group()] = e.index(); return;
    case UndoKind::kChain: core.set_chain(rows.row(e.row()), e.block(), e.index()); return;
    case UndoKind::kExternal: --core.pool.record(e.block()).external; return;
    case UndoKind::kCopy:
      --core.num_copies;
      --core.pool.record(e.block()).copy_holds;
      return;
    default: core.pool.undo(e); return;
  }
}

/// Takes the open transaction back to `position`, exactly: every count, table and queue order is as it was.
template <class Core>
void undo_to(Core& core, std::uint64_t position) {
  while (core.log.end() > position) {
    const UndoEntry e = core.log.pop();
    undo_structural(core, e);
    if constexpr (Core::kIndexed) {
      if (e.kind() == UndoKind::kTakeVictim || e.kind() == UndoKind::kHide) {
        core.pool.record(e.block()).hidden = false;
        core.index.tree().unhide(core.pool.record(e.block()).node, e.block());
      }
    }
  }
}

template <class Core>
[[gnu::noinline]] void abort_open(Core& core) {
  undo_to(core, core.log_begin());
  core.is_open = false;
}

/// A write in place by transaction `stamp` that an abort will not undo.
template <class Core>
void note_write(Core& core, const UndoEntry& e, std::uint32_t stamp) {
  const std::uint32_t oldest = core.steps.num_sealed() > 0 ? core.steps.oldest_sealed().stamp : stamp;
  core.writes.note(e.block(), static_cast<std::uint32_t>(e.cookie()), stamp, oldest);
}

/// Takes a sealed step back through its structural entries, newest first. Rows that a direct commit changed since then only shrink.
template <class Core>
class SealedUndo {
 public:
  SealedUndo(Core& core, const StepRecord& step) : core_(core), step_(step) {}

  void apply(const UndoEntry& e) {
    switch (e.kind()) {
      case UndoKind::kCreate: end_row(e); return;
      case UndoKind::kSettled: core_.rows.row(e.block()).settled_after = e.cookie(); return;
      case UndoKind::kDelete: revive(e.row()); return;
      case UndoKind::kResize: resize(e); return;
      case UndoKind::kPop: push_back(e); return;
      case UndoKind::kSet: set_back(e); return;
      case UndoKind::kDropFront: refill_front(e); return;
      case UndoKind::kWrite: note_write(core_, e, step_.stamp); return;
      case UndoKind::kFirstLive:
        if (restorable(e.row())) core_.rows.row(e.row()).first_live[e.group()] = e.index();
        return;
      case UndoKind::kTakeClean:
      case UndoKind::kTakeVictim:
        if (e.group() == 0) return;  // an entry of a table: the table gives it back
        [[fallthrough]];
      case UndoKind::kExternal:
        --core_.pool.record(e.block()).external;
        core_.drop_for_good(e.block());
        return;
      case UndoKind::kDropRef:
      case UndoKind::kDropToClean:
      case UndoKind::kDropToPending:
        if (e.group() == 0) return;
        ++core_.pool.record(e.block()).external;
        core_.pool.record(e.block()).generation = static_cast<std::uint32_t>(e.cookie());
        core_.acquire_for_good(e.block());
        return;
      default: return;  // list moves follow from the above; a shorter chain is always right, as publish finds its nodes again
    }
  }

  /// Marks and counts rows some of whose tokens this step, or an aborted later one, may have overwritten.
  std::int64_t mark_lost_rows() {
    std::int64_t num_lost = 0;
    for (std::uint32_t slot = 0; slot < core_.rows.rows().size(); ++slot) {
      SeqRow& row = core_.rows.row(slot);
      if (!row.alive || row.content_lost || !overwritten(slot)) continue;
      row.content_lost = true;
      ++num_lost;
    }
    return num_lost;
  }

 private:
  /// True when the step, or a later one, which was aborted before it, gave a block of the row to others or wrote in place where the row
  /// has tokens.
  [[nodiscard]] bool overwritten(std::uint32_t slot) const noexcept {
    const SeqRow& row = core_.rows.row(slot);
    for (std::int64_t g = 0; g < core_.config.num_groups; ++g) {
      const BlockId* table = core_.rows.table(slot, g);
      for (std::uint32_t i = row.first_live[g]; i < row.num_entries; ++i) {
        const std::uint32_t b = table[i].value;
        if (not_before(core_.pool.record(b).taken_stamp, step_.stamp)) return true;
        if (row.num_tokens - i * core_.config.block_size > core_.writes.overwritten_from(b, step_.stamp)) return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool restorable(std::uint32_t slot) const noexcept {
    const SeqRow& row = core_.rows.row(slot);
    return row.alive && row.settled_after < step_.id.value;
  }

  [[nodiscard]] SeqId seq_of(std::uint32_t slot) const noexcept { return {slot, core_.rows.row(slot).generation}; }
  void emit(CacheEventKind kind, std::uint32_t slot) {
    if constexpr (Core::kEvents) {
      core_.events.on_event({.kind = kind, .seq = seq_of(slot)});
    } else {
      static_cast<void>(kind), static_cast<void>(slot);
    }
  }

  void revive(std::uint32_t slot) {
    core_.rows.reopen(slot);
    emit(CacheEventKind::kSeqStart, slot);
  }

  void drop_entries(std::uint32_t slot, std::uint32_t down_to) {
    SeqRow& row = core_.rows.row(slot);
    for (std::uint32_t i = row.num_entries; i-- > down_to;) {
      for (std::int64_t g = 0; g < core_.config.num_groups; ++g) {
        const BlockId b = core_.rows.table(slot, g)[i];
        if (i >= row.first_live[g]) core_.drop_for_good(b.value, seq_of(slot));
      }
    }
    row.num_entries = std::min(row.num_entries, down_to);
    for (std::int64_t g = 0; g < core_.config.num_groups; ++g) row.first_live[g] = std::min(row.first_live[g], row.num_entries);
  }

  void end_row(const UndoEntry& e) {
    if (core_.rows.row(e.row()).alive) {  // else released by a direct commit
      drop_entries(e.row(), 0);
      core_.rows.close(e.row());
      emit(CacheEventKind::kSeqEnd, e.row());
    }
    core_.rows.restore_identity(e.row(), e.block(), SeqOrigin::unpack(e.index()));
    core_.rows.row(e.row()).reported_generation = e.block();
    core_.rows.row(e.row()).settled_after = 0;
    if (core_.epoch != step_.epoch) core_.rows.row(e.row()).origin.detached = true;  // a reset came in between
  }

  void resize(const UndoEntry& e) {
    SeqRow& row = core_.rows.row(e.block());
    if (!row.alive) return;
    const std::int64_t tokens = restorable(e.block()) ? old_tokens(e) : std::min(old_tokens(e), row.num_tokens);
    row.content_lost = row.content_lost || e.group() != 0;
    drop_entries(e.block(), static_cast<std::uint32_t>(ceil_div(tokens, core_.config.block_size)));
    core_.set_length(row, tokens);
    core_.shorten_chain(row, tokens / core_.config.block_size);
  }

  void push_back(const UndoEntry& e) {
    if (!restorable(e.row())) return;
    SeqRow& row = core_.rows.row(e.row());
    core_.rows.table(e.row(), e.group())[e.index()] = BlockId{e.block()};
    if (e.block() != kNoBlock.value) core_.acquire_for_good(e.block(), seq_of(e.row()));
    if (e.group() == 0) row.num_entries = e.index() + 1;
  }

  void set_back(const UndoEntry& e) {
    const SeqRow& row = core_.rows.row(e.row());
    BlockId& entry = core_.rows.table(e.row(), e.group())[e.index()];
    if (!row.alive || e.index() >= row.num_entries || e.index() < row.first_live[e.group()]) return;
    const BlockId taken = std::exchange(entry, BlockId{e.block()});
    core_.acquire_for_good(e.block(), seq_of(e.row()));
    core_.drop_for_good(taken.value, seq_of(e.row()));
  }

  void refill_front(const UndoEntry& e) {
    if (!restorable(e.row())) return;
    core_.rows.table(e.row(), e.group())[e.index()] = BlockId{e.block()};
    core_.acquire_for_good(e.block(), seq_of(e.row()));
  }

  Core& core_;
  const StepRecord& step_;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
