/// \file submit: checks a request, then makes its records. The only place that takes memory after construction.
#pragma once

#include <kvpage/sched/detail/finish.hpp>
#include <kvpage/sched/detail/order_hooks.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

inline Unexpected<Refusal> refuse_request(RefusalKind kind, std::int64_t value, std::int64_t limit, const char* unit) noexcept {
  return {Refusal{kind, value, limit, unit}};
}

/// Alone, at once, and to its full length. What the pool has of the prompt costs nothing, what a host tier may have costs its copies.
template <SchedulerCoreType Core>
[[nodiscard]] std::int64_t least_ns(const Core& core, const RequestSpec& spec, std::int64_t max_new_tokens) {
  const StepCosts costs = core.env->costs();
  const auto prompt = static_cast<std::int64_t>(spec.prompt.size());
  std::int64_t cached = 0;
  std::int64_t token_ns = costs.prefill_ns_per_token;
  if constexpr (Core::kIndexed) {
    const std::int64_t cap = spec.max_hit_tokens < 0 ? prompt : spec.max_hit_tokens;
    cached = core.cache->match({.name_space = spec.name_space, .tokens = spec.prompt, .max_tokens = cap}).num_tokens;
  }
  if constexpr (Core::kTiered) {
    if (core.cache->tier() != nullptr) token_ns = std::min(token_ns, costs.copy_ns_per_block * core.num_groups / core.block_size);
  }
  return (prompt - std::min(cached, prompt - 1)) * token_ns + max_new_tokens * costs.decode_ns_per_token;
}

/// Refuses a request whose deadline comes before that.
template <SchedulerCoreType Core>
[[nodiscard]] Expected<void, Refusal> check_deadline(const Core& core, const RequestSpec& spec, std::int64_t max_new_tokens) {
  if (!core.config.reject_infeasible || spec.finish_by_ns == 0) return {};
  const std::int64_t left_ns = spec.finish_by_ns - core.last_now_ns;
  const std::int64_t need_ns = least_ns(core, spec, max_new_tokens);
  if (need_ns < left_ns) return {};
  return Unexpected{Refusal{RefusalKind::kInfeasible, need_ns, left_ns, "ns"}};
}

/// Numbers that are wrong whatever else is in flight.
[[nodiscard]] inline Expected<void, Refusal> check_priority(std::int64_t priority) noexcept {
  if (priority >= 0 && priority <= kMaxPriority) return {};
  return Unexpected{Refusal{RefusalKind::kBadParameter, priority, priority < 0 ? 0 : kMaxPriority, "",
                            "priority must be in [0, 1000000], where 0 is the most urgent"}};
}
[[nodiscard]] inline Expected<void, Refusal> check_numbers(const RequestSpec& spec) noexcept {
  const auto negative = [](std::int64_t value, const char* what) {
    return Unexpected{Refusal{RefusalKind::kBadParameter, value, 0, "ns", what}};
  };
  if (spec.start_by_ns < 0) return negative(spec.start_by_ns, "start_by_ns must not be negative; 0 = no deadline");
  if (spec.finish_by_ns < 0) return negative(spec.finish_by_ns, "finish_by_ns must not be negative; 0 = no deadline");
  return check_priority(spec.priority);
}

/// KV blocks that the answers need at the end, when each has `new_tokens`.
inline std::int64_t final_blocks(const SchedulerState& core, const RequestSpec& spec, std::int64_t new_tokens) {
  const auto prompt = static_cast<std::int64_t>(spec.prompt.size());
  if (!spec.beam || spec.num_samples == 1) return core.held_blocks(prompt + new_tokens - 1);
  const std::int64_t last = core.blocks_of(prompt + new_tokens - 1);
  // Full blocks of the prompt are shared, unless a window has passed them when the beam starts again after a preemption. A reordered
  // beam may hold one more block per answer while it is copied.
  const std::int64_t shared = core.has_windows ? 0 : prompt / core.block_size;
  return (shared + spec.num_samples * (last - shared + 1)) * core.num_groups;
}

/// The most new tokens that the pool allows, at least 1, or the refusal.
inline Expected<Ticket, Refusal> clamp_to_limits(const SchedulerState& core, const RequestSpec& spec) {
  const auto prompt = static_cast<std::int64_t>(spec.prompt.size());
  Ticket ticket{.id = spec.id, .max_new_tokens = spec.max_new_tokens};
  if (prompt >= core.config.context_limit) {
    return refuse_request(RefusalKind::kContextLimit, prompt, core.config.context_limit, "tokens");
  }
  ticket.max_new_tokens = std::min(ticket.max_new_tokens, core.config.context_limit - prompt);
  const std::int64_t pool = core.pool.num_blocks;
  if (prompt > core.pool_tokens) return refuse_request(RefusalKind::kNeverFits, prompt, core.pool_tokens, "tokens");
  if (final_blocks(core, spec, 1) > pool) return refuse_request(RefusalKind::kNeverFits, final_blocks(core, spec, 1), pool, "blocks");
  std::int64_t fits = std::min(ticket.max_new_tokens, core.pool_tokens - prompt + 1);
  if (final_blocks(core, spec, fits) > pool) {
    std::int64_t low = 1;  // binary search of the last length that fits
    for (std::int64_t high = fits; high - low > 1;) {
      const std::int64_t middle = low + (high - low) / 2;
      (final_blocks(core, spec, middle) > pool ? high : low) = middle;
    }
    fits = low;
  }
  if (fits < ticket.max_new_tokens) {
    ticket.max_new_tokens = fits;
    ticket.limit_reason = FinishReason::kCapacity;
  }
  return ticket;
}

/// Refuses a request for which the queue has no room.
inline Expected<void, Refusal> check_queue(const SchedulerState& core, const RequestSpec& spec, std::int64_t max_new_tokens) {
  const SchedulerConfig& limits = core.config;
  if (core.waiting_requests >= limits.max_waiting) {
    return refuse_request(RefusalKind::kQueueFull, core.waiting_requests + 1, limits.max_waiting, "requests");
  }
  const std::int64_t length = static_cast<std::int64_t>(spec.prompt.size()) + max_new_tokens;
  const std::int64_t room = length * spec.num_samples * (spec.beam && spec.num_samples > 1 ? 2 : 1);
  if (room <= limits.max_waiting_tokens - core.waiting_tokens) return {};
  const bool alone = room > limits.max_waiting_tokens;
  return Unexpected{Refusal{RefusalKind::kQueueTokensFull, (alone ? 0 : core.waiting_tokens) + room, limits.max_waiting_tokens, "tokens",
                            alone ? "the answers of this request alone have more tokens than max_waiting_tokens: ask for fewer" : ""}};
}

template <SchedulerCoreType Core>
Expected<Ticket, Refusal> check_request(const Core& core, const RequestSpec& spec) {
  const auto prompt = static_cast<std::int64_t>(spec.prompt.size());
  const SchedulerConfig& limits = core.config;
  if (core.shutting_down) return refuse_request(RefusalKind::kShuttingDown, 1, 0, "requests");
  if (prompt == 0) return refuse_request(RefusalKind::kEmptyPrompt, 0, 1, "tokens");
  const std::int64_t max_answers = spec.beam ? std::min(limits.max_samples, limits.max_seqs) : limits.max_samples;
  if (spec.num_samples < 1 || spec.num_samples > max_answers) {
    return refuse_request(RefusalKind::kBadCount, spec.num_samples, max_answers, "answers");
  }
  if (spec.max_new_tokens < 1) return refuse_request(RefusalKind::kBadCount, spec.max_new_tokens, 1, "new tokens");
  if (core.requests.find(spec.id) != kNoRequestSlot) {
    return refuse_request(RefusalKind::kDuplicateId, static_cast<std::int64_t>(spec.id.value), 0, "id");
  }
  if (const auto numbers = check_numbers(spec); !numbers) return Unexpected{numbers.error()};
  auto ticket = clamp_to_limits(core, spec);
  if (!ticket) return ticket;
  if (const auto queue = check_queue(core, spec, ticket->max_new_tokens); !queue) return Unexpected{queue.error()};
  const auto tenant = core.tenants.find(spec.tenant);
  if (tenant != core.tenants.end() && tenant->second.num_requests >= limits.max_tenant_requests) {
    return refuse_request(RefusalKind::kTenantFull, tenant->second.num_requests + 1, limits.max_tenant_requests, "requests");
  }
  if (const auto feasible = check_deadline(core, spec, ticket->max_new_tokens); !feasible) return Unexpected{feasible.error()};
  return ticket;
}

template <SchedulerCoreType Core>
void fill_record(Core& core, Request& r, const RequestSpec& spec, const Ticket& ticket, std::uint32_t child) {
  r.id = spec.id;
  r.child = child;
  r.num_children = r.open_children = static_cast<std::uint32_t>(spec.num_samples);
  r.beam = spec.beam && spec.num_samples > 1;
  r.forked = spec.num_samples == 1;
  r.tokens.reserve(spec.prompt.size() + static_cast<std::size_t>(ticket.max_new_tokens));
  r.tokens.assign(spec.prompt.begin(), spec.prompt.end());
  if (r.beam) r.next_tokens.reserve(r.tokens.capacity());
  if (child == 0) r.stop_tokens.assign(spec.stop_tokens.begin(), spec.stop_tokens.end());
  r.prompt_tokens = static_cast<std::int64_t>(spec.prompt.size());
  r.max_new_tokens = ticket.max_new_tokens;
  r.limit_reason = ticket.limit_reason;
  r.name_space = spec.name_space;
  r.seed = ticket.seed;
  r.priority = spec.priority;
  r.tenant = spec.tenant;
  r.start_by_ns = spec.start_by_ns;
  r.finish_by_ns = spec.finish_by_ns;
  r.max_hit_tokens = spec.max_hit_tokens;
  r.arrival_ns = core.last_now_ns;
}

/// The order is asked once for all answers of a request: their places belong together whatever it would say the next time.
template <SchedulerCoreType Core>
void place(Core& core, std::uint32_t family) {
  Request& first = core.requests[family];
  first.base_priority = core.policies.order.priority(first.view());
  first.key = {core.policies.order.rank(first.view()), core.next_serial};
}

/// Records of a request that is being accepted: an exception gives them back.
template <SchedulerCoreType Core>
struct AcceptedRecords {
  Core& core;
  std::uint32_t family = kNoRequestSlot;
  bool accepted = false;

  ~AcceptedRecords() {
    if (!accepted && family != kNoRequestSlot) core.requests.release_family(family);
  }

  void make(const RequestSpec& spec, const Ticket& ticket) {
    std::uint32_t previous = kNoRequestSlot;
    for (std::uint32_t child = 0; child < static_cast<std::uint32_t>(spec.num_samples); ++child) {
      const std::uint32_t slot = core.requests.acquire();
      Request& r = core.requests[slot];
      r.id = spec.id;
      if (child == 0) family = slot;
      if (previous != kNoRequestSlot) core.requests[previous].next_sibling = slot;
      r.family = family;
      previous = slot;
      fill_record(core, r, spec, ticket, child);
      if (child == 0) {
        place(core, slot);
      } else {
        r.base_priority = core.requests[family].base_priority, r.key = core.requests[family].key;
      }
    }
  }
};

/// The lane of the account that the order gives a request; a new one for a new account.
template <SchedulerCoreType Core>
std::uint32_t lane_of(Core& core, const Request& r) {
  const std::uint64_t account = account_of(core.policies.order, r.view());
  if (account == kNoAccount) return 0;
  std::uint32_t& lane = core.accounts[account];
  if (lane == 0) lane = static_cast<std::uint32_t>(core.accounts.size());
  return lane;
}

/// Room for as many answers as there are records.
template <SchedulerCoreType Core>
void reserve_queues(Core& core, std::uint32_t lane, std::size_t in_lane) {
  const std::size_t num_slots = core.requests.num_slots();
  core.waiting.reserve(num_slots, lane, lane > 0 ? in_lane : num_slots);
  reserve_more(core.deferred, num_slots);
  reserve_more(core.parked, num_slots);
  reserve_more(core.scratch, num_slots);
  core.deadline_positions.resize(num_slots);
  core.deadlines.reserve(num_slots);
}

/// Makes the records and queues the request. Requires: check_request. Errors: std::bad_alloc; then nothing is in flight.
template <SchedulerCoreType Core>
void accept_request(Core& core, const RequestSpec& spec, const Ticket& ticket) {
  auto& tenant = core.tenants[spec.tenant];
  const auto num_answers = static_cast<std::size_t>(spec.num_samples);
  AcceptedRecords<Core> records{core};
  records.make(spec, ticket);
  const std::uint32_t lane = lane_of(core, core.requests[records.family]);
  const auto& lanes = core.waiting.lanes();
  reserve_queues(core, lane, (lane < lanes.size() ? lanes[lane].num_answers : 0) + num_answers);
  for (std::uint32_t s = records.family; s != kNoRequestSlot; s = core.requests[s].next_sibling) core.requests[s].lane = lane;
  core.requests.name(spec.id, records.family);
  records.accepted = true;
  ++tenant.num_requests;
  tenant.lane = lane;
  core.waiting.lanes()[lane].num_answers += num_answers;
  ++core.next_serial;
  watch_deadline(core, records.family, 0);  // one that has passed already ends the request in the next plan
  core.enqueue(records.family, core.last_now_ns);
}

}  // namespace detail
KVPAGE_END_NAMESPACE
