/// \file RequestSpec, Refusal, Ticket, RequestEvent: what goes into the scheduler and what comes out.
#pragma once

#include <kvpage/base/expected.hpp>
#include <kvpage/cache/block_ids.hpp>

#include <optional>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// Where a request stands. A finished one is gone: its last event said why.
enum class RequestState : std::uint8_t {
  kWaiting,    ///< no blocks; new or preempted
  kParked,     ///< only its row was taken: its blocks are still there, first to go when blocks run out
  kLoading,    ///< row and blocks, while the sealed step brings pages of its prompt back from the host tier
  kRunning,    ///< row and blocks
  kFinishing,  ///< ended while a sealed step names its blocks: they are free when the step is committed or aborted
};
inline constexpr std::int64_t kNumRequestStates = 5;

/// What giving way costs a sequence.
enum class PreemptionKind : std::uint8_t {
  kKeep,       ///< its row; its blocks stay
  kDemote,     ///< its blocks; what overwrites them saves them in the host tier, and it comes back as a hit that the tier continues
  kRecompute,  ///< its blocks; what is overwritten before it comes back is computed again
};

/// Why a request ended.
enum class FinishReason : std::uint8_t {
  kNone,
  kStop,       ///< a stop token, or the caller's own stop rule
  kLength,     ///< max_new_tokens, or the context limit
  kCapacity,   ///< the whole pool is full of this one request
  kCancelled,
  kDeadline,
  kError,      ///< its row could not be sampled (NaN logits, empty mask)
};

/// The least urgent priority; the most urgent one is 0.
inline constexpr std::int64_t kMaxPriority = 1'000'000;

/// A request as it is submitted. Spans are copied.
struct RequestSpec {
  RequestId id{};
  std::span<const TokenId> prompt{};  ///< [num_tokens], at least one
  std::int64_t max_new_tokens = 16;
  std::int64_t num_samples = 1;     ///< answers (n), or the width of the beam
  bool beam = false;                ///< the answers run in lockstep and may continue each other, see SampleResult::source
  NamespaceId name_space{};
  std::span<const TokenId> stop_tokens{};
  std::optional<std::uint64_t> seed{};  ///< of its draws; drawn from the environment when missing
  std::int64_t priority = 0;        ///< [0, kMaxPriority], 0 = most urgent; offline work has a large one
  std::uint32_t tenant = 0;
  std::int64_t start_by_ns = 0;     ///< 0 = none; ends with kDeadline when it still waits then
  std::int64_t finish_by_ns = 0;    ///< 0 = none; ends with kDeadline and its partial text
  std::int64_t max_hit_tokens = -1;  ///< cap of the prefix hit (prompt logprobs); -1 = none
};

/// The rule that refused a request.
enum class RefusalKind : std::uint8_t {
  kEmptyPrompt,
  kBadCount,         ///< num_samples or max_new_tokens outside of its range
  kContextLimit,     ///< the prompt leaves no room for an answer
  kNeverFits,        ///< not even alone in the whole pool
  kDuplicateId,
  kQueueFull,
  kQueueTokensFull,
  kTenantFull,
  kShuttingDown,
  kBadParameter,     ///< a parameter outside of its range; Refusal::what names it
  kInfeasible,       ///< its deadline cannot be met (SchedulerConfig::reject_infeasible)
};
inline constexpr std::int64_t kNumRefusalKinds = 11;

/// Why a request was not accepted, with the two numbers that decided. Nothing was allocated for it.
struct Refusal {
  RefusalKind kind{};
  std::int64_t value = 0;
  std::int64_t limit = 0;
  const char* unit = "";
  const char* what = "";  ///< static storage: the parameter and its rule; empty = what describe says about the kind
};

/// One sentence for people; static storage.
[[nodiscard]] constexpr const char* describe(RefusalKind kind) noexcept {
  switch (kind) {
    case RefusalKind::kEmptyPrompt: return "a prompt has at least one token";
    case RefusalKind::kBadCount: return "the number of answers or new tokens is outside of its range";
    case RefusalKind::kContextLimit: return "the prompt reaches the context limit: no token could be added";
    case RefusalKind::kNeverFits: return "the request needs more KV blocks than the whole pool has";
    case RefusalKind::kDuplicateId: return "a request of this id is in flight";
    case RefusalKind::kQueueFull: return "the waiting queue is full (max_waiting): try again later";
    case RefusalKind::kQueueTokensFull: return "the waiting queue has no room for so many tokens (max_waiting_tokens): try again later";
    case RefusalKind::kTenantFull: return "this tenant has too many requests in flight (max_tenant_requests)";
    case RefusalKind::kShuttingDown: return "the scheduler accepts no more requests";
    case RefusalKind::kBadParameter: return "a parameter is outside of its range";
    case RefusalKind::kInfeasible: return "the request cannot be finished before its deadline";
  }
  return "unknown refusal";
}
[[nodiscard]] constexpr const char* describe(const Refusal& refusal) noexcept {
  return *refusal.what != '\0' ? refusal.what : describe(refusal.kind);
}

/// What was accepted.
struct Ticket {
  RequestId id{};
  std::int64_t max_new_tokens = 0;                    ///< as asked, or fewer
  FinishReason limit_reason = FinishReason::kLength;  ///< what ends the request after max_new_tokens
  std::uint64_t seed = 0;
};

/// A new token or the end of an answer.
struct RequestEvent {
  RequestId request{};
  std::uint32_t child = 0;     ///< which of its answers
  bool has_token = false;
  TokenId token = 0;
  float logprob = 0;
  std::uint32_t source = 0;    ///< beam: the answer that this token continues
  FinishReason finish = FinishReason::kNone;  ///< of this answer; with or without a token
  bool last = false;           ///< the whole request has ended: its id is free
  std::int64_t num_new_tokens = 0;
  std::int64_t cached_tokens = 0;      ///< found in the prefix cache or its host tier, over all admissions
  std::int64_t recomputed_tokens = 0;  ///< computed again after preemptions
  std::int64_t num_preemptions = 0;    ///< of any kind: the sum of the next three
  std::int64_t preempted_keep = 0;
  std::int64_t preempted_demote = 0;
  std::int64_t preempted_recompute = 0;
};

/// How one sampled row went.
enum class SampleStatus : std::uint8_t { kOk, kError };

/// The outcome of one PlannedSample, in the order of the plan.
struct SampleResult {
  TokenId token = 0;
  float logprob = 0;
  SampleStatus status = SampleStatus::kOk;
  bool stop = false;                        ///< the caller's own rule (stop string) ends the answer with this token
  std::uint32_t source = 0xFFFF'FFFFu;      ///< beam: the answer that this one continues; default itself
};

KVPAGE_END_NAMESPACE
