/// \file commit: the results of a step become tokens, progress and published blocks; answers end, fork, and beams reorder.
#pragma once

#include <kvpage/sched/detail/order_hooks.hpp>
#include <kvpage/sched/detail/transfers.hpp>
#include <kvpage/sched/finish_rule.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// True when this answer ends with the step.
inline bool ends_now(const SchedulerState& core, std::uint32_t slot) {
  return std::any_of(core.step.ended.begin(), core.step.ended.end(), [&](const EndedAnswer& e) { return e.slot == slot; });
}

/// The answer takes a fork as its sequence; what it had before is released.
template <SchedulerCoreType Core>
bool take_fork(Core& core, typename Core::Transaction& txn, const PlannedFork& fork) {
  const auto seq = txn.fork(fork.old_seq);
  if (!seq) return false;
  core.requests[fork.slot].next_seq = *seq;
  return true;
}

/// A fork that finds no row or sequence id waits and is computed again; most of it is a prefix hit.
template <SchedulerCoreType Core>
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

template <SchedulerCoreType Core>
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
template <SchedulerCoreType Core>
void give_up_early(Core& core, typename Core::Transaction& txn, std::span<const PlannedFork> forks, const PlannedFork& fork) {
  Request& r = core.requests[fork.slot];
  const bool continued = std::any_of(forks.begin(), forks.end(), [&](const PlannedFork& f) { return f.source == fork.slot; });
  r.gave_up_seq = r.has_seq && !continued && txn.release(r.seq).has_value();
}

/// Forks all or none of a beam. None: the whole beam waits.
template <SchedulerCoreType Core>
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

template <SchedulerCoreType Core>
void fork_answer(Core& core, typename Core::Transaction& txn, const PlannedFork& fork) {
  if (core.rows_in_use() < core.config.max_seqs && take_fork(core, txn, fork)) {
    adopt_fork(core, txn, fork);
  } else {
    fall_back_to_waiting(core, txn, fork.slot);
  }
}

/// Requires: no transaction is open and no step in flight.
template <SchedulerCoreType Core>
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

/// Commits the sealed step.
template <SchedulerCoreType Core>
class StepCommit {
 public:
  StepCommit(Core& core, std::span<const SampleResult> results, std::span<const PromotionOutcome> promotions)
      : core_(core), step_(core.step), results_(results), promotions_(promotions) {}

  void run() {
    step_.stage = StepStage::kIdle;
    step_.ended.clear(), step_.forks.clear();
    count_plan();
    if constexpr (Core::kTiered) finish_transfers(core_, promotions_);
    for (const PlannedRow& row : step_.rows) {
      if (!row.loads) advance(row);
    }
    for (std::size_t i = 0, next = 0; i < step_.rows.size();) {
      const std::span<const PlannedRow> rows = unit_at(i);
      apply(rows, next);
      for (const PlannedRow& row : rows) next += row.num_samples;
      i += rows.size();
    }
    for (const EndedAnswer& ended : step_.ended) publish_tail(request(ended.slot));
    settle_sequences(core_);
    for (const EndedAnswer& ended : step_.ended) close_answer(core_, ended.slot, ended.event);
    core_.policies.admission.on_step();
    ++core_.stats.steps;
    core_.stats.tokens += step_.batch.num_tokens();
    core_.stats.leader_steps += core_.plan.leader_advanced ? 1 : 0;
  }

 private:
  [[nodiscard]] Request& request(std::uint32_t slot) const noexcept { return core_.requests[slot]; }

  /// What the plan did counts now that its step has run. Whoever waited for it may have ended since, and another have its slot.
  void count_plan() {
    for (const PlannedRow& row : step_.rows) {
      if (!row.admitted) continue;
      request(row.slot).cached_tokens += row.hit_tokens;
      core_.stats.cached_tokens += row.hit_tokens;
      ++core_.stats.admissions;
    }
    for (const std::uint32_t slot : step_.bypassed) {
      Request& r = request(slot);
      if (r.bypassed_in != step_.serial) continue;
      r.bypassed += r.bypassed_now;
      core_.stats.bypasses += r.bypassed_now;
    }
    for (const std::uint32_t slot : step_.held) request(slot).held_steps += request(slot).held_in == step_.serial ? 1 : 0;
    core_.stats.window_released += core_.plan.window_released;
    core_.stats.block_copies += static_cast<std::int64_t>(step_.batch.copies.size());
  }

  /// The rows of all answers of a beam that sample together, else one row.
  [[nodiscard]] std::span<const PlannedRow> unit_at(std::size_t i) const {
    const Request& first = request(step_.rows[i].slot);
    std::size_t count = 1;
    if (first.beam && first.forked && step_.rows[i].num_samples > 0) {
      while (i + count < step_.rows.size() && request(step_.rows[i + count].slot).family == first.family) ++count;
    }
    return std::span<const PlannedRow>{step_.rows}.subspan(i, count);
  }

  /// Progress, accounts, and full blocks to the prefix index.
  void advance(const PlannedRow& row) {
    Request& r = request(row.slot);
    const std::int64_t end = row.first_pos + row.count;
    const std::int64_t again = std::clamp<std::int64_t>(r.max_computed - row.first_pos, 0, row.count);
    r.recomputed_tokens += again;
    core_.stats.recomputed_tokens += again;
    const std::int64_t first_new = std::max(row.first_pos, r.max_computed);
    charge(r, {.prompt_tokens = std::max<std::int64_t>(0, std::min(end, r.prompt_tokens) - first_new)});
    r.num_computed = end;
    r.num_stored = std::max(row.stored, end);
    r.max_computed = std::max(r.max_computed, end);
    if (r.pending_finish == FinishReason::kNone) publish(core_, r);
  }

  /// The unfilled last block of an ended answer, for the next turn of its chat.
  void publish_tail(Request& r) {
    if (r.has_seq && !r.beam && !shares_tail(r)) publish(core_, r, true);
  }

  /// An answer that goes on must not find its last block in the index: it could not write there any more.
  [[nodiscard]] bool shares_tail(const Request& r) const {
    if (r.num_children == 1) return false;
    for (const PlannedFork& fork : step_.forks) {
      if (&request(fork.source) == &r) return true;
    }
    for (std::int64_t g = 0; g < core_.num_groups; ++g) {
      const BlockTable table = core_.cache->table(r.seq, g);
      if (table.blocks.empty() || table.blocks.back() == kNoBlock || core_.cache->ref_count(table.blocks.back()) > 1) return true;
    }
    return false;
  }

  void charge(const Request& r, const WorkDone& work) {
    if (r.lane == 0) return;  // of no account
    std::int64_t& charge = core_.waiting.lanes()[r.lane].charge;
    charge += std::min(charge_of(core_.policies.order, r.view(), work), std::numeric_limits<std::int64_t>::max() - charge);
  }

  void apply(std::span<const PlannedRow> rows, std::size_t next) {
    const PlannedRow& row = rows.front();
    Request& r = request(row.slot);
    if (r.pending_finish != FinishReason::kNone) {
      for (const PlannedRow& member : rows) end_without_token(member.slot, request(member.slot).pending_finish);
    } else if (row.num_samples == 0) {
      return;
    } else if (!r.forked) {
      first_tokens(row, results_.subspan(next, row.num_samples));
    } else if (r.beam) {
      reorder_beam(rows, results_.subspan(next, rows.size()));
    } else {
      take_token(row.slot, results_[next], core_.requests[r.family].stop_tokens);
    }
  }

  void end_without_token(std::uint32_t slot, FinishReason reason) {
    RequestEvent event = core_.event_of(request(slot));
    event.finish = reason;
    step_.ended.push_back({slot, event});
  }

  /// Appends one token and applies the finish rule.
  void take_token(std::uint32_t slot, const SampleResult& result, std::span<const TokenId> stop_tokens) {
    if (result.status == SampleStatus::kError) {
      end_without_token(slot, FinishReason::kError);
      return;
    }
    Request& r = request(slot);
    r.tokens.push_back(result.token);
    ++core_.stats.sampled_tokens;
    charge(r, {.new_tokens = 1});
    RequestEvent event = core_.event_of(r);
    event.has_token = true;
    event.token = result.token;
    event.logprob = result.logprob;
    event.source = result.source == SampleResult{}.source ? r.child : result.source;
    event.finish = finish_rule(r, stop_tokens, result.stop);
    if (event.finish == FinishReason::kNone) {
      core_.env->on_event(event);
    } else {
      step_.ended.push_back({slot, event});
    }
  }

  /// Child 0 has computed the prompt: every answer gets its first token, and a sequence of its own.
  void first_tokens(const PlannedRow& row, std::span<const SampleResult> results) {
    const bool beam = request(row.slot).beam;
    const bool failed = beam && any(results, [](const SampleResult& s) { return s.status == SampleStatus::kError; });
    const bool stopped = beam && any(results, [](const SampleResult& s) { return s.stop; });
    const std::span<const TokenId> stop_tokens{request(row.slot).stop_tokens};
    for (std::uint32_t slot = row.slot; slot != kNoRequestSlot; slot = request(slot).next_sibling) {
      Request& r = request(slot);
      SampleResult result = results[r.child];
      r.forked = true;
      if (r.ended) continue;
      result.stop = result.stop || stopped;
      if (failed) result.status = SampleStatus::kError;
      if (slot != row.slot) step_.forks.push_back({.slot = slot, .source = row.slot});
      take_token(slot, result, beam ? std::span<const TokenId>{} : stop_tokens);
    }
  }

  /// Every answer of a beam goes on with one token behind the answer that its result names. Stop or failure of one ends all.
  void reorder_beam(std::span<const PlannedRow> rows, std::span<const SampleResult> results) {
    const bool failed = any(results, [&](const SampleResult& s) {
      return s.status == SampleStatus::kError || (s.source != SampleResult{}.source && s.source >= rows.size());
    });
    const bool stopped = any(results, [](const SampleResult& s) { return s.stop; });
    for (std::size_t c = 0; c < rows.size(); ++c) {
      const std::uint32_t source = failed || results[c].source == SampleResult{}.source ? request(rows[c].slot).child : results[c].source;
      const Request& from = request(rows[source].slot);
      request(rows[c].slot).next_tokens.assign(from.tokens.begin(), from.tokens.end());
      if (source != c) step_.forks.push_back({.slot = rows[c].slot, .source = rows[source].slot});
    }
    for (std::size_t c = 0; c < rows.size(); ++c) {
      SampleResult result = results[c];
      result.stop = stopped;
      if (failed) result.status = SampleStatus::kError;
      request(rows[c].slot).tokens.swap(request(rows[c].slot).next_tokens);
      take_token(rows[c].slot, result, {});
    }
  }

  template <class Predicate>
  [[nodiscard]] static bool any(std::span<const SampleResult> results, Predicate&& predicate) {
    return std::any_of(results.begin(), results.end(), predicate);
  }

  Core& core_;
  PlanRecord& step_;
  std::span<const SampleResult> results_;
  std::span<const PromotionOutcome> promotions_;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
