/// \file AdmissionPlanner: gives rows to requests that wait.
#pragma once

#include <kvpage/sched/admission_policy.hpp>
#include <kvpage/sched/detail/row_planner.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

enum class AdmissionOutcome : std::uint8_t { kAdmitted, kNoRow, kNoBudget, kNoBlocks };

/// The second half of a plan: hits, resumptions, admissions.
template <class Core>
class AdmissionPlanner : public RowPlanner<Core> {
 protected:
  using Base = RowPlanner<Core>;
  using Base::core_, Base::step_, Base::txn_, Base::budget_left_, Base::rows_in_use_, Base::request, Base::planned;
  using Base::Base;

  /// Tries to give a waiting request its row and first blocks; changes nothing when it cannot. Child 0 stands for a whole beam: the
  /// others start from its blocks once it has caught up, see plan_beam.
  AdmissionOutcome try_admit(std::uint32_t slot) {
    const std::int64_t weight = Core::row_weight(request(slot));
    if (rows_in_use_ + weight > core_.config.max_seqs) return AdmissionOutcome::kNoRow;
    const auto before = this->mark();
    const AdmissionOutcome outcome = admit(slot);
    if (outcome == AdmissionOutcome::kAdmitted) {
      rows_in_use_ += weight;
    } else {
      this->rollback_to(before);
    }
    return outcome;
  }

 private:
  AdmissionOutcome admit(std::uint32_t slot) {
    Request& r = request(slot);
    PlannedRow row{.slot = slot, .seq = r.seq, .first_pos = r.num_computed, .stored = r.num_stored, .admitted = true};
    const bool has_blocks = r.has_seq && !this->lost_blocks(r);
    if (!has_blocks && !this->start_sequence(slot, row, true)) return AdmissionOutcome::kNoRow;
    const std::int64_t n = row.loads ? 0 : this->chunk(row.first_pos, Core::catch_up_tokens(r) - row.first_pos);
    if (n == 0 && !row.loads) return AdmissionOutcome::kNoBudget;
    const AdmissionView view = view_of(r, row, n);
    if (needed_blocks(r, view) > core_.cache->capacity().available()) return AdmissionOutcome::kNoBlocks;
    if (!row.loads) row.count = this->reserve(slot, row, n, false);
    if (row.count == 0 && !row.loads) return AdmissionOutcome::kNoBlocks;
    this->add_row(row);
    if (running_known_) count_running(r, row.seq);
    return AdmissionOutcome::kAdmitted;
  }

  [[nodiscard]] std::int64_t needed_blocks(const Request& r, const AdmissionView& view) const {
    if (view.num_running == 0) return 0;  // alone it gets what is there, whatever a policy wants to keep free
    std::int64_t needed = std::max<std::int64_t>(view.chunk_blocks, core_.policies.admission.needed_blocks(view));
    if (r.num_preemptions() > 0) needed = std::max(needed, view.prompt_blocks + core_.num_groups);  // else it would be back at once
    if (r.num_preemptions() >= core_.config.shield_after) needed = std::max(needed, view.full_blocks);
    return needed;
  }

  /// Blocks that a sequence misses until it has `num_tokens` tokens, if it keeps what it has.
  [[nodiscard]] std::int64_t missing(SeqId seq, std::int64_t num_tokens) const {
    const std::int64_t have = core_.blocks_of(core_.cache->num_tokens(seq));
    return std::max<std::int64_t>(0, core_.blocks_of(num_tokens) - have) * core_.num_groups;
  }
  /// The same if it gives back what its windows have passed.
  [[nodiscard]] std::int64_t missing_in_the_end(SeqId seq, std::int64_t num_tokens) const {
    if (!core_.has_windows) return missing(seq, num_tokens);
    std::int64_t blocks = 0;
    for (std::int64_t g = 0; g < core_.num_groups; ++g) {
      const BlockTable table = core_.cache->table(seq, g);
      blocks += std::max<std::int64_t>(0, core_.held_blocks(g, num_tokens) - (std::ssize(table.blocks) - table.first_live));
    }
    return blocks;
  }
  [[nodiscard]] std::int64_t missing_at_end(const Request& r, SeqId seq) const {
    const std::int64_t blocks = missing_in_the_end(seq, r.final_tokens());
    if (r.forked) return blocks;
    const std::int64_t own = core_.blocks_of(r.final_tokens()) - r.prompt_tokens / core_.block_size;  // of each further answer
    return blocks + (r.num_children - 1) * own * core_.num_groups;
  }
  [[nodiscard]] static std::int64_t growth(const Request& r) noexcept {
    const std::int64_t tokens = std::min<std::int64_t>(r.max_new_tokens - r.num_new_tokens(), 4096);
    return r.forked ? tokens : tokens * r.num_children;
  }

  [[nodiscard]] AdmissionView view_of(const Request& r, const PlannedRow& row, std::int64_t rows) {
    if (!running_known_) sum_up_running();
    AdmissionView view = running_;
    view.chunk_blocks = missing(row.seq, row.first_pos + rows);
    view.prompt_blocks = missing_in_the_end(row.seq, r.num_tokens());
    view.full_blocks = missing_at_end(r, row.seq);
    view.growth_tokens = growth(r);
    return view;
  }
  void sum_up_running() {
    running_ = {.block_size = core_.block_size, .num_groups = core_.num_groups};
    running_known_ = true;
    for (const std::uint32_t slot : core_.running) {
      if (!this->lost_row(request(slot))) count_running(request(slot), request(slot).seq);
    }
    for (const PlannedRow& row : step_.unsorted) {
      if (row.admitted) count_running(request(row.slot), row.seq);
    }
  }
  void count_running(const Request& r, SeqId seq) {
    ++running_.num_running;
    running_.running_prompt_blocks += missing_in_the_end(seq, r.num_tokens());
    running_.running_full_blocks += missing_at_end(r, seq);
    running_.running_growth_tokens += growth(r);
  }

  AdmissionView running_{};

 protected:
  bool running_known_ = false;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
