/// \file Request: one answer of a submitted request as the scheduler keeps it; policies read it.
#pragma once

#include <kvpage/sched/request.hpp>

#include <compare>
#include <memory_resource>
#include <vector>

KVPAGE_BEGIN_NAMESPACE

/// "No request here": never a valid slot.
inline constexpr std::uint32_t kNoRequestSlot = 0xFFFF'FFFFu;

/// Position in an order: smaller is earlier, and no two requests are equal.
struct RankKey {
  std::int64_t rank = 0;
  std::uint64_t serial = 0;  ///< of submission
  friend constexpr auto operator<=>(const RankKey&, const RankKey&) = default;
};

/// What an order may know of a request.
struct RequestView {
  std::int64_t arrival_ns = 0;
  std::int64_t priority = 0;  ///< as submitted or set since; 0 = most urgent
  std::int64_t prompt_tokens = 0;
  std::int64_t max_new_tokens = 0;
  std::int64_t start_by_ns = 0;   ///< 0 = no deadline
  std::int64_t finish_by_ns = 0;  ///< 0 = no deadline
  std::uint32_t tenant = 0;
  std::uint32_t num_answers = 1;
};

/// One answer. A request for n answers has n of these; the first one (`child == 0`) computes the prompt for all.
struct Request {
  explicit Request(std::pmr::memory_resource* memory) : tokens(memory), next_tokens(memory), stop_tokens(memory) {}

  RequestId id{};
  std::uint32_t child = 0;
  std::uint32_t family = kNoRequestSlot;  ///< slot of child 0
  std::uint32_t next_sibling = kNoRequestSlot;
  std::uint32_t num_children = 1;         ///< of the whole request
  std::uint32_t open_children = 1;        ///< child 0: answers that have not ended
  bool beam = false;
  bool forked = false;   ///< the first tokens are sampled: every child has tokens of its own
  bool ended = false;    ///< the record stays until its family ends

  std::pmr::vector<TokenId> tokens;       ///< prompt and answer; room for all was reserved in submit
  std::pmr::vector<TokenId> next_tokens;  ///< beam: scratch of a reorder
  std::pmr::vector<TokenId> stop_tokens;  ///< child 0 only
  std::int64_t prompt_tokens = 0;
  std::int64_t max_new_tokens = 0;
  FinishReason limit_reason = FinishReason::kLength;
  NamespaceId name_space{};
  std::uint64_t seed = 0;
  std::int64_t priority = 0;
  std::uint32_t tenant = 0;
  std::int64_t start_by_ns = 0;
  std::int64_t finish_by_ns = 0;
  std::int64_t max_hit_tokens = -1;
  bool timed = false;   ///< child 0: stands in the heap of deadlines

  std::int64_t arrival_ns = 0;
  RankKey key{};                ///< by the order policy, fixed
  std::int64_t base_priority = 0;  ///< by the order policy, fixed
  std::uint32_t lane = 0;       ///< of the waiting queue

  RequestState state = RequestState::kWaiting;
  bool queued = false;          ///< in the waiting queue
  bool has_seq = false;
  SeqId seq{};
  SeqId next_seq{};             ///< scratch of a reorder
  bool gave_up_seq = false;     ///< scratch of a reorder
  std::int64_t num_computed = 0;   ///< tokens that need no row any more
  std::int64_t num_stored = 0;     ///< tokens whose keys and values lie in the cache; num_computed or one more (full hit)
  std::int64_t num_published = 0;
  std::int64_t max_computed = 0;   ///< the most it ever had: rows below it are recomputation
  FinishReason pending_finish = FinishReason::kNone;  ///< to be applied when the sealed step is over

  std::int64_t waiting_since_ns = 0;
  std::int64_t bypassed = 0;
  std::int64_t turn_until = 0;  ///< guarded: it keeps row and blocks until it has computed so many tokens; 0 = not guarded
  std::int64_t held_steps = 0;  ///< steps that it waited for another prompt to become a hit
  std::int64_t cached_tokens = 0;
  std::int64_t recomputed_tokens = 0;
  std::int64_t preempted_keep = 0;
  std::int64_t preempted_demote = 0;
  std::int64_t preempted_recompute = 0;
  bool load_failed = false;        ///< pages did not come back from the host tier: it loads no more
  // Scratch of the plan in the making: its serial, when the plan ...
  std::uint64_t visited_in = 0;    ///< ... has tried to give it rows
  std::uint64_t planned_in = 0;    ///< ... gives it rows or blocks
  std::uint64_t kept_in = 0;       ///< ... takes its row
  std::uint64_t victim_in = 0;     ///< ... takes its blocks
  std::uint64_t held_in = 0;       ///< ... lets it wait for another prompt
  std::uint64_t bypassed_in = 0;   ///< ... lets others overtake it, bypassed_now times
  std::int64_t bypassed_now = 0;

  [[nodiscard]] RequestView view() const noexcept {
    return {.arrival_ns = arrival_ns, .priority = priority, .prompt_tokens = prompt_tokens, .max_new_tokens = max_new_tokens,
            .start_by_ns = start_by_ns, .finish_by_ns = finish_by_ns, .tenant = tenant, .num_answers = num_children};
  }
  [[nodiscard]] std::int64_t num_tokens() const noexcept { return static_cast<std::int64_t>(tokens.size()); }
  [[nodiscard]] std::int64_t num_new_tokens() const noexcept { return num_tokens() - prompt_tokens; }
  /// Tokens whose keys and values it will need at its end: the last token is never computed.
  [[nodiscard]] std::int64_t final_tokens() const noexcept { return prompt_tokens + max_new_tokens - 1; }
  /// Tokens that memory was taken for in submit: those of every answer it stands for, to the end; twice for a beam, which is reordered.
  [[nodiscard]] std::int64_t room_tokens() const noexcept {
    const bool for_all = beam || !forked;
    return (prompt_tokens + max_new_tokens) * (for_all ? num_children : 1) * (beam ? 2 : 1);
  }
  [[nodiscard]] bool decoding() const noexcept { return num_tokens() - num_computed == 1 && num_new_tokens() > 0; }
  [[nodiscard]] std::int64_t num_preemptions() const noexcept { return preempted_keep + preempted_demote + preempted_recompute; }
};

KVPAGE_END_NAMESPACE
