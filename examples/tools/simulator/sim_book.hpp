/// \file SimBook: what the simulator knows about every request, and the judge of what it is told.
#pragma once

#include "tools/simulator/toy_oracle.hpp"

KVPAGE_BEGIN_NAMESPACE

/// One answer as the oracle sees it: the text so far, alone and without memory limits.
struct SimAnswer {
  ToyContext context;
  ToyContext next;              ///< with the token of the step in flight
  TokenId next_token = 0;
  bool expects_token = false;   ///< the step in flight samples it
  bool bad_row = false;         ///< ... and that was told to fail
  bool stop_asked = false;
  bool ended = false;
  std::int64_t num_new = 0;
  std::int64_t turn_from = -1;  ///< tokens it had when it was last admitted under a guard; -1 = under none
};

struct SimRequest {
  std::vector<TokenId> prompt;
  std::vector<TokenId> stop_tokens;
  RequestSpec spec{};
  Ticket ticket{};
  std::vector<SimAnswer> answers;
  bool cancelled = false;
  bool bad_row = false;
  bool over = false;
};

/// Judges events. The first rule that was broken stays in `violation`.
class SimBook {
 public:
  static constexpr TokenId kVocab = 61;

  explicit SimBook(const BlockAllocatorConfig& config) : config_(&config) {}

  std::vector<SimRequest> requests;  // by id
  const char* violation = nullptr;
  std::int64_t violation_id = -1;
  std::uint64_t digest = 0x1234'5678;
  std::int64_t num_finished = 0;
  std::int64_t reasons[7] = {};
  std::int64_t max_times_again = -1;  ///< an answer computes its tokens again so many times at most; -1 = faults take blocks, too

  void check(bool holds, const char* rule, std::int64_t id = -1) {
    if (holds || violation != nullptr) return;
    violation = rule;
    violation_id = id;
  }

  void open(const RequestSpec& spec, const Ticket& ticket) {
    SimRequest& r = requests[spec.id.value];
    r.spec = spec;
    r.spec.prompt = r.prompt;
    r.ticket = ticket;
    ToyContext context{*config_, spec.name_space};
    for (const TokenId token : r.prompt) context.append(token);
    r.answers.assign(static_cast<std::size_t>(spec.num_samples), SimAnswer{.context = context, .next = context});
  }

  /// The scheduler says something about a request.
  void on_event(const RequestEvent& event, std::int64_t now_ns) {
    const auto id = static_cast<std::int64_t>(event.request.value);
    SimRequest& r = requests[event.request.value];
    fold(event);
    check(!r.over, "nothing follows the last event of a request", id);
    SimAnswer& answer = r.answers[event.child];
    check(!answer.ended, "nothing follows the end of an answer", id);
    if (event.has_token) {
      check(answer.expects_token && answer.next_token == event.token, "a token is the one that was sampled for it", id);
      check(!answer.stop_asked || event.finish == FinishReason::kStop, "an answer stops at its stop token", id);
      answer.context = answer.next;
      ++answer.num_new;
    }
    answer.expects_token = false;
    check(event.num_new_tokens == answer.num_new, "the event counts the tokens of its answer", id);
    check(answer.num_new < r.ticket.max_new_tokens || event.finish != FinishReason::kNone, "an answer ends at max_new_tokens", id);
    if (event.finish != FinishReason::kNone) end(r, answer, event, now_ns);
  }

 private:
  void end(SimRequest& r, SimAnswer& answer, const RequestEvent& event, std::int64_t now_ns) {
    const auto id = static_cast<std::int64_t>(event.request.value);
    answer.ended = true;
    ++reasons[static_cast<std::size_t>(event.finish)];
    const bool full = answer.num_new == r.ticket.max_new_tokens;
    bool right = false;
    switch (event.finish) {
      case FinishReason::kStop: right = event.has_token && answer.stop_asked; break;
      case FinishReason::kLength:
      case FinishReason::kCapacity: right = event.has_token && full && event.finish == r.ticket.limit_reason; break;
      case FinishReason::kCancelled: right = r.cancelled; break;
      case FinishReason::kDeadline: right = deadline_passed(r, now_ns); break;
      case FinishReason::kError: right = answer.bad_row || (r.bad_row && r.spec.beam); break;
      case FinishReason::kNone: break;
    }
    check(right, "an answer ends for the reason that it has", id);
    const std::int64_t num_tokens = static_cast<std::int64_t>(r.prompt.size()) + answer.num_new;
    const bool counts = max_times_again >= 0 && (!r.spec.beam || r.spec.num_samples == 1);
    check(!counts || event.recomputed_tokens <= max_times_again * num_tokens, "preemptions cost a bounded multiple of the answer", id);
    bool all = true;
    for (const SimAnswer& a : r.answers) all = all && a.ended;
    check(all == event.last, "the last event is the one of the last answer", id);
    r.over = event.last;
    num_finished += event.last ? 1 : 0;
  }

  [[nodiscard]] static bool deadline_passed(const SimRequest& r, std::int64_t now_ns) {
    return (r.spec.finish_by_ns != 0 && now_ns >= r.spec.finish_by_ns) || (r.spec.start_by_ns != 0 && now_ns >= r.spec.start_by_ns);
  }

  void fold(const RequestEvent& event) noexcept {
    digest = toy::fold(digest, event.request.value << 8 | event.child);
    digest = toy::fold(digest, std::uint64_t{event.token} << 8 | static_cast<std::uint64_t>(event.finish));
    const std::int64_t counts = event.cached_tokens << 32 | event.recomputed_tokens << 8 | event.num_preemptions;
    digest = toy::fold(digest, static_cast<std::uint64_t>(counts));
  }

  const BlockAllocatorConfig* config_;
};

KVPAGE_END_NAMESPACE
