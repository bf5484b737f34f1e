/// \file settle_sequences: after a commit, answers get sequences by forking and ended ones give theirs back, in one transaction.
#pragma once

#include <kvpage/sched/detail/finish.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// True when this answer ends with the step.
template <class Core>
bool ends_now(const Core& core, std::uint32_t slot) {
  return std::any_of(core.step.ended.begin(), core.step.ended.end(), [&](const EndedAnswer& e) { return e.slot == slot; });
}

/// The answer takes a fork as its sequence; what it had before is released.
template <class Core>
bool take_fork(Core& core, typename Core::Transaction& txn, const PlannedFork& fork) {
  const auto seq = txn.fork(fork.old_seq);
  if (!seq) return false;
  core.requests[fork.slot].next_seq = *seq;
  return true;
}

/// A fork that finds no row or sequence id waits and is computed again; most of it is a prefix hit.
template <class Core>
void fall_back_to_waiting(Core& core, typename Core::Transaction& txn, std::uint32_t slot) {
  Request& r = core.requests[slot];
  if (r.has_seq) {
    const bool released = txn.release(r.seq).has_value();
    KVPAGE_ASSERT(released, "a live sequence can be released");
    core.make_waiting(slot, core.last_now_ns);
    return;
  }
  core.enqueue(r.beam ? r.family : slot, core.last_now_ns);
}

template <class Core>
void adopt_fork(Core& core, typename Core::Transaction& txn, const PlannedFork& fork) {
  Request& r = core.requests[fork.slot];
  const bool ran = r.has_seq;
  if (ran && !std::exchange(r.gave_up_seq, false)) {
    const bool released = txn.release(r.seq).has_value();
    KVPAGE_ASSERT(released, "a live sequence can be released");
  }
  r.seq = r.next_seq;
  r.has_seq = true;
  r.num_computed = r.num_stored = fork.num_computed;
  r.num_published = fork.num_published;
  r.max_computed = std::max(r.max_computed, fork.num_computed);
  if (!ran) core.start_running(fork.slot);
  ++core.stats.forks;
}

/// An answer that nobody continues gives its sequence back before the forks are made: their ids may be needed.
template <class Core>
void give_up_early(Core& core, typename Core::Transaction& txn, std::span<const PlannedFork> forks, const PlannedFork& fork) {
  Request& r = core.requests[fork.slot];
  const bool continued = std::any_of(forks.begin(), forks.end(), [&](const PlannedFork& f) { return f.source == fork.slot; });
  r.gave_up_seq = r.has_seq && !continued && txn.release(r.seq).has_value();
}

/// Forks all or none of a beam. None: the whole beam waits.
template <class Core>
void fork_beam(Core& core, typename Core::Transaction& txn, std::span<PlannedFork> forks) {
  const Savepoint before = txn.mark();
  for (PlannedFork& fork : forks) give_up_early(core, txn, forks, fork);
  const bool all = std::all_of(forks.begin(), forks.end(), [&](const PlannedFork& fork) { return take_fork(core, txn, fork); });
  if (all) {
    for (const PlannedFork& fork : forks) adopt_fork(core, txn, fork);
    return;
  }
  txn.rollback_to(before);
  for (const PlannedFork& fork : forks) core.requests[fork.slot].gave_up_seq = false;
  core.requests.for_each_open(core.requests[forks.front().slot].family, [&](std::uint32_t slot) { fall_back_to_waiting(core, txn, slot); });
}

template <class Core>
void fork_answer(Core& core, typename Core::Transaction& txn, const PlannedFork& fork) {
  if (core.rows_in_use() < core.config.max_seqs && take_fork(core, txn, fork)) {
    adopt_fork(core, txn, fork);
  } else {
    fall_back_to_waiting(core, txn, fork.slot);
  }
}

/// Requires: no transaction is open and no step in flight.
template <class Core>
void settle_sequences(Core& core) {
  auto& step = core.step;
  if (step.forks.empty() && step.ended.empty()) return;
  auto txn = core.cache->begin();
  KVPAGE_ASSERT(txn.has_value(), "no transaction is open outside of plan");
  for (PlannedFork& fork : step.forks) {
    const Request& source = core.requests[fork.source];
    fork.old_seq = source.seq, fork.num_computed = source.num_computed, fork.num_published = source.num_published;
  }
  for (std::size_t i = 0; i < step.forks.size();) {
    const Request& r = core.requests[step.forks[i].slot];
    std::size_t count = 1;
    while (r.beam && i + count < step.forks.size() && core.requests[step.forks[i + count].slot].family == r.family) ++count;
    if (!ends_now(core, step.forks[i].slot)) {
      if (r.beam) {
        fork_beam(core, *txn, std::span{step.forks}.subspan(i, count));
      } else {
        fork_answer(core, *txn, step.forks[i]);
      }
    }
    i += count;
  }
  for (const EndedAnswer& ended : step.ended) {
    const Request& r = core.requests[ended.slot];
    if (!r.has_seq) continue;
    const bool released = txn->release(r.seq).has_value();
    KVPAGE_ASSERT(released, "a live sequence can be released");
  }
  const bool done = txn->commit().has_value();
  KVPAGE_ASSERT(done, "nothing is in flight");
}

}  // namespace detail
KVPAGE_END_NAMESPACE
