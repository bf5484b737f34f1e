/// \file RequestLedger: what each request in flight has taken so far, from the plans and events of the scheduler.
#pragma once

#include "engine/sampling/generation_request.hpp"
#include "engine/sampling/step_output.hpp"

#include <kvpage/sched/batch_plan.hpp>

#include <string>
#include <unordered_map>
#include <utility>

namespace kvpage::engine {

/// Becomes the GenerationResult of a request when its last answer has ended. Cost: one look-up per sequence of a step and per event.
class RequestLedger {
 public:
  /// Errors: std::bad_alloc; then nothing is open.
  void open(RequestId id, const GenerationRequest& request) {
    GenerationResult result;
    result.request = id;
    result.name = request.name;
    result.metrics.prompt_tokens = static_cast<std::int64_t>(request.prompt_ids.size());
    open_.emplace(id.value, std::move(result));
  }
  /// The request was accepted.
  void accept(const Ticket& ticket, std::int64_t now_ns) {
    GenerationResult& result = open_.at(ticket.id.value);
    result.seed = ticket.seed;
    result.metrics.arrival_ns = now_ns;
  }
  /// As if it had never been opened.
  void forget(RequestId id) noexcept { open_.erase(id.value); }

  /// The rows of a step that has run.
  void count_rows(const BatchPlan& plan) {
    for (std::size_t s = 0; s < plan.owners.size(); ++s) {
      const auto found = open_.find(plan.owners[s].request.value);
      if (found != open_.end()) found->second.metrics.positions_computed += plan.sequences[s].q_count;
    }
  }

  void on_event(const RequestEvent& event, std::int64_t now_ns) {
    RequestMetrics& metrics = open_.at(event.request.value).metrics;
    if (event.has_token && metrics.first_token_ns == 0) {
      metrics.first_token_ns = now_ns;
      metrics.cached_tokens = event.cached_tokens;
    }
    if (event.finish == FinishReason::kNone) return;
    metrics.recomputed_tokens += event.recomputed_tokens;
    metrics.preempted_keep += event.preempted_keep;
    metrics.preempted_demote += event.preempted_demote;
    metrics.preempted_recompute += event.preempted_recompute;
    if (event.last) metrics.finished_ns = now_ns;
  }

  [[nodiscard]] GenerationResult close(RequestId id) {
    auto node = open_.extract(id.value);
    return std::move(node.mapped());
  }

 private:
  std::unordered_map<std::uint64_t, GenerationResult> open_;
};

}  // namespace kvpage::engine
