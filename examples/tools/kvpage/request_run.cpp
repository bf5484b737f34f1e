#include "tools/kvpage/request_run.hpp"

#include "tools/kvpage/failure.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

namespace kvpage::cli {

RunRecord RequestRun::run(const std::vector<TimedRequest>& requests) {
  by_arrival_.resize(requests.size());
  std::iota(by_arrival_.begin(), by_arrival_.end(), std::size_t{0});
  std::stable_sort(by_arrival_.begin(), by_arrival_.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].arrival_ns < requests[b].arrival_ns; });
  start_ns_ = env_.now_ns();
  for (const TimedRequest& request : requests) {
    record_.outcomes.push_back({.request = &request, .arrival_ns = start_ns_ + request.arrival_ns, .refusal = {}, .result = {}});
  }
  submit_due(start_ns_);  // what arrives later comes after the first step, however slow this thread is
  while (next_ < by_arrival_.size() || engine_.num_requests() > 0) {
    if (interrupted_()) {
      cancel_all();
      break;
    }
    engine_.num_requests() > 0 ? step() : wait_for_arrival();
    show();
    submit_due(env_.now_ns());
  }
  record_.wall_s = static_cast<double>(env_.now_ns() - start_ns_) * 1e-9;
  return std::exchange(record_, {});
}

void RequestRun::submit_due(std::int64_t now_ns) {
  while (next_ < by_arrival_.size() && record_.outcomes[by_arrival_[next_]].arrival_ns <= now_ns) submit(by_arrival_[next_++]);
}

void RequestRun::submit(std::size_t index) {
  RequestOutcome& outcome = record_.outcomes[index];
  engine::GenerationRequest request = outcome.request->request;
  if (outcome.request->deadline_ns > 0) request.finish_by_ns = outcome.arrival_ns + outcome.request->deadline_ns;
  const auto ticket = engine_.submit(request);
  if (ticket) {
    in_flight_.emplace(ticket->id.value, index);
  } else {
    outcome.refusal = ticket.error();
    ++num_ended_;
  }
}

/// Sleeps until the next request is due, but never so long that an interrupt would have to wait.
void RequestRun::wait_for_arrival() const {
  constexpr std::int64_t kLongestNs = 50'000'000;
  const std::int64_t due_ns = std::max<std::int64_t>(0, record_.outcomes[by_arrival_[next_]].arrival_ns - env_.now_ns());
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(due_ns, kLongestNs)));
}

void RequestRun::step() {
  const engine::StepOutput& output = engine_.step();
  if (output.gave_up) throw Failure(kExitRun, std::string("steps fail one after the other: ") + output.status.message());
  if (!output.idle) {
    record_.steps.push_back({.num_tokens = output.num_tokens, .num_seqs = output.num_seqs,
                             .used_blocks = engine_.cache().allocator().capacity().used, .duration_ns = output.duration_ns});
    if (output.num_tokens > 0) record_.cascade_tokens += engine_.model().step_stats().cascade_tokens;
  }
  output_tokens_ += static_cast<std::int64_t>(output.tokens.size());
  for (const engine::GenerationResult& result : output.finished) {
    const auto found = in_flight_.find(result.request.value);
    // Cancelled before anything was computed for it: it was not run.
    if (!record_.interrupted || result.metrics.positions_computed > 0) record_.outcomes[found->second].result = result;
    in_flight_.erase(found);
    ++num_ended_;
  }
}

void RequestRun::cancel_all() {
  record_.interrupted = true;
  for (const auto& [id, index] : in_flight_) engine_.cancel(RequestId{id});
  do step();
  while (!in_flight_.empty());
}

void RequestRun::show() const {
  if (progress_ == nullptr) return;
  progress_->show(RunStatus{.num_running = engine_.num_running(),
                            .num_waiting = engine_.num_waiting(),
                            .num_finished = num_ended_,
                            .num_requests = std::ssize(by_arrival_),
                            .output_tokens = output_tokens_,
                            .pool_share = engine_.cache().allocator().capacity().utilisation()});
}

}  // namespace kvpage::cli
