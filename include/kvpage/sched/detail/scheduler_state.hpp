/// \file SchedulerState: what a scheduler knows without any type of its user, and the moves that concern more than one part of it.
#pragma once

#include <kvpage/cache/block_allocator_config.hpp>
#include <kvpage/sched/detail/plan_record.hpp>
#include <kvpage/sched/detail/plan_state.hpp>
#include <kvpage/sched/detail/request_table.hpp>
#include <kvpage/sched/detail/waiting_queue.hpp>
#include <kvpage/sched/scheduler_config.hpp>

#include <algorithm>
#include <limits>
#include <tuple>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

struct SchedulerState {
  SchedulerConfig config;
  BlockAllocatorConfig pool{};
  RequestTable requests;
  TenantTable tenants;
  AccountTable accounts;
  WaitingQueue waiting;
  SlotHeap deadlines;  // of child 0 of requests in flight, the next moment to look at
  std::vector<std::uint32_t> deadline_positions;
  std::vector<std::uint32_t> running;  // by (base priority, key, child)
  std::vector<std::uint32_t> parked;   // slots that wait with their blocks
  std::vector<std::uint32_t> deferred;  // answers that ended while a plan is open
  std::vector<std::uint32_t> scratch;
  PlanState plan;
  PlanRecord step;
  SchedulerStats stats{};
  std::int64_t num_groups = 1;
  std::int64_t block_size = 1;
  std::int64_t pool_tokens = 0;  ///< of one sequence alone
  std::int64_t waiting_requests = 0;
  std::int64_t waiting_tokens = 0;
  std::int64_t last_now_ns = 0;
  std::int64_t aborts_in_a_row = 0;
  std::uint64_t next_serial = 0;
  FormedBatch batch{};
  bool has_windows = false;
  bool shutting_down = false;

  SchedulerState(const SchedulerConfig& limits, const BlockAllocatorConfig& blocks, std::pmr::memory_resource* memory)
      : config(limits), pool(blocks), requests(memory), tenants(memory), accounts(memory), num_groups(blocks.num_groups),
        block_size(blocks.block_size) {
    for (std::int64_t g = 0; g < num_groups; ++g) has_windows = has_windows || pool.window(g) > 0;
    pool_tokens = longest_sequence();
  }

  /// Room for the largest step, as far as it is known.
  void reserve() {
    const auto rows = static_cast<std::size_t>(config.max_seqs);
    running.reserve(rows + 1), plan.blocked.reserve(static_cast<std::size_t>(config.max_examined)), plan.ranked.reserve(128);
    step.reserve(rows, static_cast<std::size_t>(std::min<std::int64_t>(config.budget_tokens, 1 << 16)),
                 static_cast<std::size_t>(num_groups));
    step.bypassed.reserve(static_cast<std::size_t>(config.max_examined) + 1);
  }

  [[nodiscard]] std::int64_t blocks_of(std::int64_t num_tokens) const noexcept { return ceil_div(num_tokens, block_size); }
  /// Blocks that a sequence of so many tokens holds in one group in steps of `rows` rows: what its window has passed is given back.
  [[nodiscard]] std::int64_t held_blocks(std::int64_t group, std::int64_t num_tokens, std::int64_t rows) const noexcept {
    const std::int64_t window = pool.window(group);
    return window == 0 ? blocks_of(num_tokens) : std::min(blocks_of(num_tokens), blocks_of(window + rows) + 1);
  }
  /// The same in all groups, in the smallest steps.
  [[nodiscard]] std::int64_t held_blocks(std::int64_t num_tokens) const noexcept {
    std::int64_t blocks = 0;
    for (std::int64_t g = 0; g < num_groups; ++g) blocks += held_blocks(g, num_tokens, config.chunk_align);
    return blocks;
  }
  /// The longest sequence that the pool holds alone.
  [[nodiscard]] std::int64_t longest_sequence() const noexcept {
    std::int64_t blocks = 0;  // binary search: of the largest number of whole blocks that fits
    for (std::int64_t too_many = pool.max_blocks_per_seq + 1; too_many - blocks > 1;) {
      const std::int64_t middle = blocks + (too_many - blocks) / 2;
      (held_blocks(middle * block_size) > pool.num_blocks ? too_many : blocks) = middle;
    }
    return blocks * block_size;
  }

  /// Rows that are kept for a running answer: child 0 has those of its whole beam.
  [[nodiscard]] static std::int64_t row_weight(const Request& r) noexcept {
    if (!r.beam) return 1;
    return r.child == 0 ? r.num_children : 0;
  }
  /// Tokens that an answer computes on its own; the last one of a beam's answer is computed in lockstep.
  [[nodiscard]] static std::int64_t catch_up_tokens(const Request& r) noexcept { return r.num_tokens() - (r.beam && r.forked ? 1 : 0); }

  [[nodiscard]] bool shielded(const Request& r) const noexcept { return r.num_preemptions() >= config.shield_after; }
  [[nodiscard]] bool overdue(const Request& r) const noexcept { return r.waiting_since_ns < last_now_ns - config.starve_after_ns; }
  /// Child 0 waits and is guarded for its whole beam.
  [[nodiscard]] const Request& waiter(const Request& r) const noexcept { return r.beam ? requests[r.family] : r; }
  /// A running answer that is guarded and has not gained yet what it is guarded for.
  [[nodiscard]] bool holds_turn(const Request& r) const noexcept { return waiter(r).num_computed < waiter(r).turn_until; }
  static constexpr std::int64_t kTurnTokens = 16;  ///< that an overdue request gains before others take from it again
  /// The tokens with which a turn is over that begins with `computed`; 0 = not guarded. Whoever is shielded gains a token, and pays for
  /// what it computes again with as much that is new: no load can make it lose more than it gains.
  [[nodiscard]] std::int64_t end_of_turn(const Request& r, std::int64_t computed, bool is_shielded) const noexcept {
    const std::int64_t end = overdue(r) ? r.num_tokens() - 1 + kTurnTokens : 0;
    if (!is_shielded) return end;
    return std::max({end, r.num_tokens(), r.max_computed + std::max<std::int64_t>(0, r.max_computed - computed)});
  }

  [[nodiscard]] std::int64_t rows_in_use() const noexcept {
    std::int64_t rows = 0;
    for (const std::uint32_t slot : running) rows += row_weight(requests[slot]);
    return rows;
  }

  [[nodiscard]] auto position(std::uint32_t slot) const noexcept {
    const Request& r = requests[slot];
    return std::make_tuple(r.base_priority, r.key, r.child);
  }
  void start_running(std::uint32_t slot) {
    const auto at = std::lower_bound(running.begin(), running.end(), slot,
                                     [this](std::uint32_t a, std::uint32_t b) { return position(a) < position(b); });
    running.insert(at, slot);
    requests[slot].state = RequestState::kRunning;
  }
  void stop_running(std::uint32_t slot) {
    const auto at = std::lower_bound(running.begin(), running.end(), slot,
                                     [this](std::uint32_t a, std::uint32_t b) { return position(a) < position(b); });
    KVPAGE_ASSERT(at != running.end() && *at == slot, "a running request stands in the running set");
    running.erase(at);
  }

  /// Into the waiting queue; of a beam that has forked, child 0 stands for all.
  void enqueue(std::uint32_t slot, std::int64_t now_ns) {
    Request& r = requests[slot];
    if (r.queued || (r.beam && r.child > 0)) return;
    lift_lane(r.lane);
    r.queued = true;
    r.waiting_since_ns = now_ns;
    waiting.push(slot, r.key, r.lane);
    if (r.child == 0) ++waiting_requests;
    waiting_tokens += r.room_tokens();
  }
  void dequeue(std::uint32_t slot) {
    Request& r = requests[slot];
    if (!r.queued) return;
    r.queued = false;
    waiting.remove(slot, r.lane);
    if (r.child == 0) --waiting_requests;
    waiting_tokens -= r.room_tokens();
  }

  /// A tenant that comes back gets no credit for its absence: it is lifted to the least among those that wait or run.
  void lift_lane(std::uint32_t lane) {
    auto& lanes = waiting.lanes();
    if (!lanes[lane].heap.empty()) return;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& other : lanes) {
      if (!other.heap.empty()) least = std::min(least, other.charge);
    }
    for (const std::uint32_t slot : running) {
      if (requests[slot].lane == lane) return;
      least = std::min(least, lanes[requests[slot].lane].charge);
    }
    if (least != std::numeric_limits<std::int64_t>::max()) lanes[lane].charge = std::max(lanes[lane].charge, least);
  }

  /// The record of a sequence without blocks: everything is to be computed again.
  static void forget_blocks(Request& r) noexcept {
    r.has_seq = false;
    r.seq = {};
    r.num_computed = r.num_stored = r.num_published = r.turn_until = 0;
  }

  /// Running -> Waiting, its blocks being gone already.
  void make_waiting(std::uint32_t slot, std::int64_t now_ns) {
    stop_running(slot);
    Request& r = requests[slot];
    forget_blocks(r);
    r.state = RequestState::kWaiting;
    if (!r.beam || requests[r.family].state != RequestState::kRunning) enqueue(r.beam ? r.family : slot, now_ns);
  }
  void unpark(std::uint32_t slot) { parked.erase(std::find(parked.begin(), parked.end(), slot)); }

  [[nodiscard]] bool planned(const Request& r) const noexcept { return r.planned_in == step.serial; }
  [[nodiscard]] bool lost_row(const Request& r) const noexcept { return r.victim_in == step.serial || r.kept_in == step.serial; }
  [[nodiscard]] bool lost_blocks(const Request& r) const noexcept { return r.victim_in == step.serial; }
  /// The leader, or an answer of the leading beam.
  [[nodiscard]] bool leads(std::uint32_t slot) const noexcept {
    if (plan.leader == kNoRequestSlot) return false;
    return slot == plan.leader || (requests[slot].beam && requests[slot].family == requests[plan.leader].family);
  }
  /// Calls fn for the sequences that live and die together: all answers of a forked beam, else the one.
  template <class Fn>
  void for_each_member(std::uint32_t slot, Fn&& fn) const {
    const Request& r = requests[slot];
    if (r.beam && r.forked) {
      requests.for_each_open(r.family, fn);
    } else {
      fn(slot);
    }
  }

  [[nodiscard]] RequestEvent event_of(const Request& r) const {
    return {.request = r.id, .child = r.child, .token = 0, .source = r.child, .num_new_tokens = r.num_new_tokens(),
            .cached_tokens = r.cached_tokens, .recomputed_tokens = r.recomputed_tokens, .num_preemptions = r.num_preemptions(),
            .preempted_keep = r.preempted_keep, .preempted_demote = r.preempted_demote, .preempted_recompute = r.preempted_recompute};
  }
};

}  // namespace detail
KVPAGE_END_NAMESPACE
