/// \file EngineTrace: what an engine does, on its way into a recorded trace.
#pragma once

#include "engine/finish_names.hpp"
#include "engine/sampling/generation_request.hpp"
#include "engine/trace/trace_recorder.hpp"

#include <kvpage/sched/batch_plan.hpp>

#include <new>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// Requests are recorded under their names, or, without one of their own, under the numbers of their tickets. Without a recorder it
/// does nothing. Cost: it remembers the id of each request of the trace, so that none comes twice.
/// Errors: a trace that finds no memory ends, and its recorder says so when it is flushed; the engine goes on.
class EngineTrace {
 public:
  EngineTrace() = default;
  explicit EngineTrace(TraceRecorder* recorder) noexcept : recorder_(recorder) {}

  void submit(RequestId id, const GenerationRequest& request) noexcept {
    write([&] {
      TraceRequest submitted;
      submitted.id = name(id, request.name);
      submitted.prompt_ids = request.prompt_ids;
      submitted.max_tokens = request.max_tokens;
      submitted.num_answers = request.num_candidates();
      recorder_->submit(submitted);
    });
  }

  /// Of the step that is sealed next.
  void plan(const BatchPlan& plan) noexcept {
    write([&] { write_plan(plan); });
  }

  /// Of a plan that was just sealed.
  void transfers(const BatchPlan& plan) noexcept {
    write([&] { write_transfers(plan); });
  }

  /// Of one answer; `tokens` that it has.
  void finish(const RequestEvent& event, std::span<const TokenId> tokens) noexcept {
    write([&] {
      recorder_->finish({.id = names_.at(event.request.value), .answer = event.child, .reason = std::string(name_of(event.finish)),
                         .output_ids = {tokens.begin(), tokens.end()}});
      if (event.last) names_.erase(event.request.value);
    });
  }
  void capacity(const CapacitySnapshot& capacity) noexcept {
    write([&] { recorder_->capacity(capacity); });
  }

 private:
  template <class Write>
  void write(Write&& lines) noexcept {
    if (recorder_ == nullptr) return;
    try {
      lines();
    } catch (const std::bad_alloc&) {
      std::exchange(recorder_, nullptr)->fail();
    }
  }

  void write_plan(const BatchPlan& plan) {
    for (const PlannedPreemption& victim : plan.preemptions) {
      recorder_->preempt({.id = names_.at(victim.request.value), .answer = victim.child, .kind = victim.kind});
    }
    rows_.clear();
    for (std::size_t s = 0; s < plan.owners.size(); ++s) {
      const PlannedOwner& owner = plan.owners[s];
      const QuerySpan& span = plan.sequences[s];
      rows_.push_back({.id = names_.at(owner.request.value), .seq = owner.seq, .first_position = span.first_pos,
                       .num_tokens = span.q_count, .answer = owner.child, .cached_tokens = owner.cached_tokens});
    }
    recorder_->plan(rows_);
  }

  void write_transfers(const BatchPlan& plan) {
    if (plan.loading.empty() && plan.demotions.empty()) return;
    const auto promoted = static_cast<std::int64_t>(plan.promotions.size());
    const auto demoted = static_cast<std::int64_t>(plan.demotions.size());
    recorder_->transfer({.demoted_blocks = demoted, .promoted_blocks = promoted});
    for (const PlannedOwner& owner : plan.loading) {
      recorder_->transfer({.id = names_.at(owner.request.value), .answer = owner.child});
    }
  }

  /// An id that no earlier request of the trace had: what is wanted, with the ticket's number behind it as often as it is taken.
  const std::string& name(RequestId id, const std::string& wanted) {
    const std::string number = std::to_string(id.value);
    std::string free = wanted.empty() ? number : wanted;
    while (!used_.insert(free).second) free += "#" + number;
    return names_[id.value] = std::move(free);
  }

  TraceRecorder* recorder_ = nullptr;
  std::unordered_map<std::uint64_t, std::string> names_;  // of requests in flight
  std::unordered_set<std::string> used_;                  // ids of the whole trace
  std::vector<PlannedRow> rows_;
};

}  // namespace kvpage::engine
