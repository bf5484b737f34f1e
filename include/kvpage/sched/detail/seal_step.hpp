/// \file What a plan decided becomes true when it is sealed, and what an aborted step takes back.
#pragma once

#include <kvpage/sched/detail/preemption_cost.hpp>
#include <kvpage/sched/detail/transfers.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <class Core>
void apply_victim(Core& core, const Victim& victim) {
  Request& r = core.requests[victim.slot];
  if (victim.keeps_blocks()) {
    ++r.preempted_keep, ++core.stats.preempted_keep;
    core.stop_running(victim.slot);
    r.state = RequestState::kParked;
    core.parked.push_back(victim.slot);
    core.enqueue(victim.slot, core.last_now_ns);
    return;
  }
  const bool demoted = victim.kind == PreemptionKind::kDemote;
  demoted ? ++r.preempted_demote : ++r.preempted_recompute;
  demoted ? ++core.stats.preempted_demote : ++core.stats.preempted_recompute;
  core.policies.admission.on_preemption(r.num_new_tokens(), r.max_new_tokens, static_cast<std::int64_t>(core.running.size()));
  if (r.state == RequestState::kRunning) {
    core.make_waiting(victim.slot, core.last_now_ns);
    return;
  }
  core.unpark(victim.slot);
  Core::forget_blocks(r);
  r.state = RequestState::kWaiting;
}

template <class Core>
void apply_admission(Core& core, const PlannedRow& row) {
  Request& r = core.requests[row.slot];
  core.dequeue(r.beam ? r.family : row.slot);
  if (r.state == RequestState::kParked) core.unpark(row.slot);
  r.has_seq = true;
  r.seq = row.seq;
  r.num_computed = row.first_pos;
  r.num_stored = row.stored;
  r.num_published = row.stored / core.block_size * core.block_size;
  r.turn_until = row.turn_until;
  core.start_running(row.slot);
  if (row.loads) r.state = RequestState::kLoading;
}

/// The open plan becomes the sealed step. Errors: those of CacheTransaction::seal; the plan stays open.
template <class Core>
CacheResult<StepId> seal_plan(Core& core) {
  auto& step = core.step;
  save_victims(core);
  const auto id = step.txn->seal();
  if (!id) {
    end_demotions(core);
    step.batch.demotions.clear();
    return id;
  }
  step.id = *id;
  step.txn.reset();
  step.stage = StepStage::kSealed;
  step.batch_before = core.batch;
  if (core.running.empty()) core.batch = {};
  for (const Victim& victim : step.victims) apply_victim(core, victim);
  for (const PlannedRow& row : step.rows) {
    if (!row.admitted) continue;
    apply_admission(core, row);
    ++core.batch.size;
  }
  core.batch.closed = core.batch.closed || core.batch.size >= core.config.max_seqs || core.waiting.empty();
  end_deferred(core);
  return id;
}

/// The open plan never happened.
template <class Core>
void drop_plan(Core& core) {
  forget_transaction(core);
  core.step.stage = StepStage::kIdle;
  end_deferred(core);
}

/// The answer loses its blocks and waits; of a beam, all answers.
template <class Core>
void send_back(Core& core, std::uint32_t slot) {
  const auto one = [&](std::uint32_t s) {
    Request& r = core.requests[s];
    if (!r.has_seq) return;
    if (core.cache->alive(r.seq)) release_blocks(core, r.seq);
    if (r.state == RequestState::kParked) {
      core.unpark(s);
      r.state = RequestState::kWaiting;
    }
    if (r.state == RequestState::kRunning || r.state == RequestState::kLoading) {
      core.make_waiting(s, core.last_now_ns);
    } else {
      Core::forget_blocks(r);
    }
  };
  const Request& r = core.requests[slot];
  const bool started_from_first = r.beam && r.child > 0 && !core.cache->alive(r.seq);
  if (!r.beam || !r.forked || (started_from_first && core.cache->alive(core.requests[r.family].seq))) {
    one(slot);
  } else {
    core.requests.for_each_open(r.family, one);
  }
}

/// What the aborted step had admitted waits again; a sequence whose tokens it may have overwritten is computed again.
template <class Core>
void recompute_lost(Core& core) {
  core.scratch.assign(core.running.begin(), core.running.end());
  core.scratch.insert(core.scratch.end(), core.parked.begin(), core.parked.end());
  for (const std::uint32_t slot : core.scratch) {
    const Request& r = core.requests[slot];
    if (!r.has_seq) continue;
    const bool alive = core.cache->alive(r.seq);
    if (alive && !core.cache->content_lost(r.seq)) continue;
    core.stats.lost_contents += alive ? 1 : 0;
    send_back(core, slot);
  }
}

/// Ends every answer that was to end when the step is over.
template <class Core>
void end_finishing(Core& core) {
  core.scratch.clear();
  for (const std::uint32_t slot : core.running) {
    if (core.requests[slot].pending_finish != FinishReason::kNone) core.scratch.push_back(slot);
  }
  for (const std::uint32_t slot : core.scratch) {
    end_answer(core, slot, std::exchange(core.requests[slot].pending_finish, FinishReason::kNone));
  }
}

/// Takes the sealed step back: progress is as before, its victims wait, what it admitted waits again. Demotions that were carried out
/// stay: the tier's content is still what its key says.
template <class Core>
void abort_sealed_step(Core& core, StepId id, std::int64_t num_promoted) {
  auto& step = core.step;
  end_demotions(core);
  release_promotions(core, num_promoted);
  const auto done = core.cache->abort(id);
  KVPAGE_ASSERT(done.has_value(), "the sealed step is the newest one");
  step.stage = StepStage::kIdle;
  for (const Victim& victim : step.victims) {
    if (!victim.keeps_blocks() && core.cache->alive(victim.seq)) release_blocks(core, victim.seq);
  }
  recompute_lost(core);
  end_finishing(core);
  core.batch = step.batch_before;
  ++core.stats.aborted_steps;
  ++core.aborts_in_a_row;
}

}  // namespace detail
KVPAGE_END_NAMESPACE
