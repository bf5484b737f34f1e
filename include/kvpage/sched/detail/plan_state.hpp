/// \file PlanState: what a plan in the making knows beside the rows that it has given.
#pragma once

#include <kvpage/cache/cache_transaction.hpp>
#include <kvpage/sched/admission_policy.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// What goes back with a plan's mark, see mark_plan.
struct PlanCounts {
  std::int64_t budget_left = 0;
  std::int64_t decodes_left = 0;  ///< rows kept free for decoding sequences that are not planned yet
  std::int64_t rows_in_use = 0;
  std::int64_t window_released = 0;  ///< blocks
  bool leader_advanced = false;
  bool preempted_for_growth = false;
};

/// A candidate of the look-ahead of an order.
struct RankedCandidate {
  std::int64_t rank = 0;
  std::int64_t cached_tokens = 0;
  std::uint32_t slot = kNoRequestSlot;
};

/// One for all plans: what it says of the last one stays readable until the next one begins.
struct PlanState : PlanCounts {
  std::uint32_t leader = kNoRequestSlot;
  std::uint32_t overdue = kNoRequestSlot;  ///< who has waited longest, if that is too long
  bool partial_hits = true;  ///< the source of a partial hit is held while it is copied: in a full pool that can be too much
  // Admissions: what all that run miss, summed up when it is first asked for.
  bool running_known = false;
  AdmissionView running_sums{};
  std::int64_t turn_blocks = 0;  ///< that those who are guarded miss until their turns end: set aside, so that no turn is in another's way
  // Candidates: `first`, then those of the queue, or of its ranked start.
  std::uint32_t first = kNoRequestSlot;
  std::size_t look_ahead = 0;  ///< candidates that the order ranks by their hits; 0 = it goes by the queue alone
  std::size_t next_ranked = 0;
  std::vector<RankedCandidate> ranked;
  std::vector<std::uint32_t> blocked;  ///< candidates that lack blocks

  void begin(std::int64_t budget_tokens) {
    static_cast<PlanCounts&>(*this) = {.budget_left = budget_tokens};
    leader = overdue = first = kNoRequestSlot;
    partial_hits = true, running_known = false;
    ranked.clear(), blocked.clear();
  }
};

/// The plan before something was tried.
struct PlanMark {
  Savepoint savepoint;
  std::size_t num_rows, num_victims, num_loads, num_load_slots;
  PlanCounts counts;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
