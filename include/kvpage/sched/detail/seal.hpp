/// \file What a plan decided becomes true when it is sealed, and what an aborted step takes back.
#pragma once

#include <kvpage/sched/detail/preempt.hpp>
#include <kvpage/sched/detail/transfers.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// The open plan becomes the sealed step. Errors: those of CacheTransaction::seal; the plan stays open.
template <SchedulerCoreType Core>
CacheResult<StepId> seal_plan(Core& core) {
  auto& step = core.step;
  save_victims(core);
  const auto id = core.txn->seal();
  if (!id) {
    end_demotions(core);
    step.batch.demotions.clear();
    return id;
  }
  step.id = *id;
  core.txn.reset();
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
template <SchedulerCoreType Core>
void drop_plan(Core& core) {
  forget_transaction(core);
  core.step.stage = StepStage::kIdle;
  end_deferred(core);
}

/// The answer loses its blocks and waits; of a beam, all answers.
template <SchedulerCoreType Core>
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
      SchedulerState::forget_blocks(r);
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
template <SchedulerCoreType Core>
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
template <SchedulerCoreType Core>
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
template <SchedulerCoreType Core>
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
