/// \file RequestLedger: what each request in flight has taken so far, from the plans and events of the scheduler.
#pragma once

#include "engine/generation_request.hpp"
#include "engine/step_output.hpp"

#include <kvpage/sched/batch_plan.hpp>

#include <string>
#include <unordered_map>
#include <utility>

namespace kvpage::engine {

/// Becomes the GenerationResult of a request when its last answer has ended. Cost: one look-up per sequence of a step and per event.
class RequestLedger {
 public:
  void open(const Ticket& ticket, const GenerationRequest& request, std::int64_t now_ns) {
    GenerationResult& result = open_[ticket.id.value];
    result.request = ticket.id;
    result.name = request.name;
    result.seed = ticket.seed;
    result.metrics.prompt_tokens = static_cast<std::int64_t>(request.prompt_ids.size());
    result.metrics.arrival_ns = now_ns;
  }

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
