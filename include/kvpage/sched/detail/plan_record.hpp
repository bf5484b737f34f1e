/// \file PlanRecord: what a plan decided, kept beside its BatchPlan until the step is committed, aborted or dropped.
#pragma once

#include <kvpage/sched/batch_plan.hpp>
#include <kvpage/sched/order_policy.hpp>
#include <kvpage/sched/preemption_policy.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Rows of one sequence in the step; count 0 = it loads.
struct PlannedRow {
  std::uint32_t slot = kNoRequestSlot;
  SeqId seq{};
  std::int64_t first_pos = 0;
  std::int64_t count = 0;
  std::int64_t stored = 0;      ///< tokens in the cache before the step: rows below it are query only
  std::int64_t hit_tokens = 0;  ///< of an admission, rows saved
  bool admitted = false;
  std::int64_t turn_until = 0;  ///< of an admission, see Request::turn_until
  bool loads = false;           ///< its blocks get pages of the host tier, see PlannedLoad
  std::uint32_t num_samples = 0;
};

/// Blocks of a sequence that get pages of the host tier, behind those of its prefix hit.
struct PlannedLoad {
  std::uint32_t slot = kNoRequestSlot;
  SeqId seq{};
  std::uint32_t hit_blocks = 0;
  std::int64_t num_blocks = 0;
  std::size_t first_slot = 0;  ///< into load_slots, [num_blocks, num_groups]
};

/// A sequence that loses its row, its blocks, or both (it may stand here twice).
struct Victim {
  std::uint32_t slot = kNoRequestSlot;
  SeqId seq{};
  PreemptionKind kind = PreemptionKind::kRecompute;

  [[nodiscard]] bool keeps_blocks() const noexcept { return kind == PreemptionKind::kKeep; }
};

/// An answer that goes on with the blocks of another one.
struct PlannedFork {
  std::uint32_t slot = kNoRequestSlot;
  std::uint32_t source = kNoRequestSlot;
  SeqId old_seq{};  ///< of the source, before any of the forks
  std::int64_t num_computed = 0;
  std::int64_t num_published = 0;
};

/// An answer that ends with the step, and its last event.
struct EndedAnswer {
  std::uint32_t slot = kNoRequestSlot;
  RequestEvent event{};
};

enum class StepStage : std::uint8_t { kIdle, kOpen, kSealed };

struct PlanRecord {
  BatchPlan batch;
  std::vector<PlannedRow> rows;  // in the order of the batch once it is written; rows of count 0 last
  std::vector<PlannedRow> unsorted;
  std::vector<Victim> victims;
  std::vector<PlannedLoad> loads;
  std::vector<std::uint32_t> load_slots;  // held, one after the other; kNoTierSlot where no page is needed
  std::vector<std::uint32_t> bypassed;  // slots that were overtaken, see Request::bypassed_in
  std::vector<std::uint32_t> held;      // slots that wait for a prompt in the making
  std::vector<PlannedFork> forks;
  std::vector<EndedAnswer> ended;
  StepId id{};
  FormedBatch batch_before{};
  std::uint64_t serial = 0;
  StepStage stage = StepStage::kIdle;

  void reserve(std::size_t num_rows, std::size_t num_tokens, std::size_t num_groups) {
    rows.reserve(num_rows), unsorted.reserve(num_rows), victims.reserve(2 * num_rows), held.reserve(128);
    loads.reserve(num_rows), forks.reserve(num_rows), ended.reserve(num_rows);
    batch.sequences.reserve(num_rows), batch.owners.reserve(num_rows), batch.kv_lens.reserve(num_rows);
    batch.logit_rows.reserve(num_rows), batch.samples.reserve(num_rows), batch.copies.reserve(2 * num_rows);
    batch.preemptions.reserve(2 * num_rows);
    batch.tokens.reserve(num_tokens), batch.positions.reserve(num_tokens);
    batch.groups.resize(num_groups);
    for (PlannedGroup& group : batch.groups) {
      group.indptr.reserve(num_rows + 1), group.write_slots.reserve(num_tokens), group.block_ids.reserve(16 * num_rows);
    }
  }

  void clear(std::int64_t num_groups) {
    batch.clear(num_groups);
    rows.clear(), unsorted.clear(), victims.clear(), loads.clear(), load_slots.clear(), bypassed.clear(), held.clear();
    ++serial;
  }
};

}  // namespace detail
KVPAGE_END_NAMESPACE
