/// \file commit: the results of a step become tokens, progress and published blocks; answers end, fork, and beams reorder.
#pragma once

#include <kvpage/sched/detail/fork_answers.hpp>
#include <kvpage/sched/detail/transfers.hpp>
#include <kvpage/sched/finish_rule.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Commits the sealed step.
template <class Core>
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
    core_.stats.leader_steps += step_.leader_advanced ? 1 : 0;
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
    core_.stats.window_released += step_.window_released;
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
    charge(r, std::max<std::int64_t>(0, std::min(end, r.prompt_tokens) - first_new));
    r.num_computed = end;
    r.num_stored = std::max(row.stored, end);
    r.max_computed = std::max(r.max_computed, end);
    if (r.pending_finish == FinishReason::kNone) core_.publish(r);
  }

  /// The unfilled last block of an ended answer, for the next turn of its chat.
  void publish_tail(Request& r) {
    if (r.has_seq && !r.beam && !shares_tail(r)) core_.publish(r, true);
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

  void charge(const Request& r, std::int64_t work) {
    if (core_.policies.order.kFairLanes) core_.waiting.lanes()[r.lane].charge += work;
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
    charge(r, 2);
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
  decltype(Core::step)& step_;
  std::span<const SampleResult> results_;
  std::span<const PromotionOutcome> promotions_;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
