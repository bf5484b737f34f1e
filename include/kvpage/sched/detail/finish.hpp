/// \file How answers and requests end, from every state.
#pragma once

#include <kvpage/sched/detail/scheduler_core.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// The answer leaves every queue; its blocks were released. Its last event goes out, and with the last answer the request is gone.
template <SchedulerCoreType Core>
void close_answer(Core& core, std::uint32_t slot, RequestEvent event) {
  Request& r = core.requests[slot];
  if (r.state == RequestState::kRunning || r.state == RequestState::kFinishing) core.stop_running(slot);
  if (r.state == RequestState::kParked) core.unpark(slot);
  core.dequeue(slot);
  SchedulerState::forget_blocks(r);
  r.ended = true;
  Request& first = core.requests[r.family];
  event.last = --first.open_children == 0;
  core.env->on_event(event);
  if (!event.last) return;
  --core.tenants.find(first.tenant)->second.num_requests;
  core.waiting.lanes()[first.lane].num_answers -= first.num_children;
  if (first.timed) core.deadlines.remove(r.family, core.deadline_positions);
  core.requests.release_family(r.family);
}

/// Gives the blocks of a sequence back outside of any plan.
template <SchedulerCoreType Core>
void release_blocks(Core& core, SeqId seq) {
  auto txn = core.cache->begin();
  KVPAGE_ASSERT(txn.has_value(), "no transaction is open outside of plan");
  const bool done = txn->release(seq).has_value() && txn->commit().has_value();
  KVPAGE_ASSERT(done, "a live sequence can be released");
}

/// Ends one answer without a token: at once, or when the step that works on it is over.
template <SchedulerCoreType Core>
void end_answer(Core& core, std::uint32_t slot, FinishReason reason) {
  Request& r = core.requests[slot];
  if (r.pending_finish != FinishReason::kNone) return;
  if (core.step.stage == StepStage::kOpen) {
    r.pending_finish = reason;
    core.deferred.push_back(slot);
    return;
  }
  if (core.step.stage == StepStage::kSealed && r.planned_in == core.step.serial && r.has_seq) {
    r.pending_finish = reason;
    r.state = RequestState::kFinishing;
    return;
  }
  if (r.has_seq) release_blocks(core, r.seq);
  RequestEvent event = core.event_of(r);
  event.finish = reason;
  close_answer(core, slot, event);
}

/// Ends what was cancelled while a plan was open. Requires: none is open any more.
template <SchedulerCoreType Core>
void end_deferred(Core& core) {
  for (const std::uint32_t slot : core.deferred) {
    const FinishReason reason = std::exchange(core.requests[slot].pending_finish, FinishReason::kNone);
    end_answer(core, slot, reason);
  }
  core.deferred.clear();
}

/// Ends all answers of a request.
template <SchedulerCoreType Core>
void end_request(Core& core, std::uint32_t family, FinishReason reason) {
  core.requests.for_each_open(family, [&](std::uint32_t slot) { end_answer(core, slot, reason); });
}

/// A new base priority: the answers of a request move to their new places wherever they stand; what they have waited stays.
template <SchedulerCoreType Core>
void change_priority(Core& core, std::uint32_t family, std::int64_t priority) {
  RequestView view = core.requests[family].view();
  view.priority = priority;
  const std::int64_t base_priority = core.policies.order.priority(view);
  const std::int64_t rank = core.policies.order.rank(view);
  core.requests.for_each_open(family, [&](std::uint32_t slot) {
    Request& r = core.requests[slot];
    if (r.state == RequestState::kRunning) core.stop_running(slot);
    r.priority = priority;
    r.base_priority = base_priority;
    r.key.rank = rank;
    if (r.state == RequestState::kRunning) core.start_running(slot);
    if (r.queued) core.waiting.rekey(slot, r.key, r.lane);
  });
}

/// Puts a request among those that have a deadline to come, by the next one.
inline void watch_deadline(SchedulerState& core, std::uint32_t family, std::int64_t after_ns) {
  Request& r = core.requests[family];
  std::int64_t next = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t deadline_ns : {r.start_by_ns, r.finish_by_ns}) {
    if (deadline_ns > after_ns) next = std::min(next, deadline_ns);
  }
  r.timed = next != std::numeric_limits<std::int64_t>::max();
  if (r.timed) core.deadlines.push({{next, r.key.serial}, family}, core.deadline_positions);
}

/// True when the request ran out of time.
[[nodiscard]] inline bool expired(const Request& first, std::int64_t now_ns) noexcept {
  if (first.finish_by_ns != 0 && now_ns >= first.finish_by_ns) return true;
  const bool started = first.state != RequestState::kWaiting || first.max_computed > 0 || first.num_preemptions() > 0 || first.ended;
  return first.start_by_ns != 0 && now_ns >= first.start_by_ns && !started;
}

/// Ends requests whose time is over. Cost: O(log n) per deadline that passed.
template <SchedulerCoreType Core>
void end_expired(Core& core, std::int64_t now_ns) {
  while (!core.deadlines.empty() && core.deadlines[0].key.rank <= now_ns) {
    const std::uint32_t family = core.deadlines[0].slot;
    core.deadlines.remove(family, core.deadline_positions);
    core.requests[family].timed = false;
    if (expired(core.requests[family], now_ns)) {
      end_request(core, family, FinishReason::kDeadline);
    } else {
      watch_deadline(core, family, now_ns);
    }
  }
}

}  // namespace detail
KVPAGE_END_NAMESPACE
