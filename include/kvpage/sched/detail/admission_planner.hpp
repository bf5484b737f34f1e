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
    row.turn_until = core_.end_of_turn(r, row.first_pos, shielded_after_plan(r));
    const AdmissionView view = view_of(r, row, n);
    if (needed_blocks(r, row, view) > core_.cache->capacity().available()) return AdmissionOutcome::kNoBlocks;
    if (!row.loads) row.count = this->reserve(slot, row, n, false);
    if (row.count == 0 && !row.loads) return AdmissionOutcome::kNoBlocks;
    this->add_row(row);
    if (running_known_) count_running(r, row.seq, row.turn_until);
    return AdmissionOutcome::kAdmitted;
  }

  [[nodiscard]] std::int64_t needed_blocks(const Request& r, const PlannedRow& row, const AdmissionView& view) const {
    if (view.num_running == 0) return 0;  // alone it gets what is there, whatever a policy wants to keep free
    std::int64_t own = view.chunk_blocks;
    if (r.num_preemptions() > 0) own = std::max(own, view.prompt_blocks + core_.num_groups);  // else it would be back at once
    if (shielded_after_plan(r)) own = std::max(own, view.full_blocks);
    if (row.turn_until > 0) own = std::max(own, missing_in_turn(r, row.seq, row.turn_until));
    return std::max(own + turn_blocks_, core_.policies.admission.needed_blocks(view));
  }

  /// A plan that takes row or blocks may give them back: then it counts this time already.
  [[nodiscard]] bool shielded_after_plan(const Request& r) const noexcept {
    const std::int64_t now = (r.kept_in == step_.serial ? 1 : 0) + (this->lost_blocks(r) ? 1 : 0);
    return r.num_preemptions() + now >= core_.config.shield_after;
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
      const std::int64_t held = core_.held_blocks(g, num_tokens, core_.config.chunk_align);
      blocks += std::max<std::int64_t>(0, held - (std::ssize(table.blocks) - table.first_live));
    }
    return blocks;
  }
  [[nodiscard]] std::int64_t missing_at_end(const Request& r, SeqId seq) const {
    const std::int64_t blocks = missing_in_the_end(seq, r.final_tokens());
    if (r.forked) return blocks;
    const std::int64_t own = core_.blocks_of(r.final_tokens()) - r.prompt_tokens / core_.block_size;  // of each further answer
    return blocks + (r.num_children - 1) * own * core_.num_groups;
  }
  /// The same until a turn is over, whatever others do meanwhile: one block more for a copy; answers of a beam share their prompt at most.
  [[nodiscard]] std::int64_t missing_in_turn(const Request& r, SeqId seq, std::int64_t turn_until) const {
    const std::int64_t end = std::min(turn_until, r.final_tokens());
    const std::int64_t shared = core_.has_windows ? 0 : r.prompt_tokens / core_.block_size;
    const std::int64_t others = r.beam ? (r.num_children - 1) * (core_.blocks_of(end) - shared + 1) : 0;
    const std::int64_t own = core_.has_windows ? missing_behind_windows(seq, end) : missing(seq, end);
    return own + (others + 1) * core_.num_groups;
  }
  /// In the largest steps. A block that others hold too is not free again when a window has passed it.
  [[nodiscard]] std::int64_t missing_behind_windows(SeqId seq, std::int64_t num_tokens) const {
    const std::int64_t rows = std::min(core_.config.max_chunk_tokens, core_.config.budget_tokens);
    std::int64_t blocks = 0;
    for (std::int64_t g = 0; g < core_.num_groups; ++g) {
      const BlockTable table = core_.cache->table(seq, g);
      const bool all = core_.cache->config().window(g) == 0;
      const auto live = table.blocks.subspan(static_cast<std::size_t>(table.first_live));
      const auto counts = [&](BlockId block) { return all || core_.cache->ref_count(block) == 1; };
      blocks += std::max<std::int64_t>(0, core_.held_blocks(g, num_tokens, rows) - std::count_if(live.begin(), live.end(), counts));
    }
    return blocks;
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
    turn_blocks_ = 0;
    running_known_ = true;
    for (const std::uint32_t slot : core_.running) {
      if (!this->lost_row(request(slot))) count_running(request(slot), request(slot).seq, open_turn(request(slot)));
    }
    for (const PlannedRow& row : step_.unsorted) {
      if (row.admitted) count_running(request(row.slot), row.seq, row.turn_until);
    }
  }
  void count_running(const Request& r, SeqId seq, std::int64_t turn_until) {
    ++running_.num_running;
    running_.running_prompt_blocks += missing_in_the_end(seq, r.num_tokens());
    running_.running_full_blocks += missing_at_end(r, seq);
    running_.running_growth_tokens += growth(r);
    if (turn_until > 0) turn_blocks_ += missing_in_turn(r, seq, turn_until);
  }
  [[nodiscard]] static std::int64_t open_turn(const Request& r) noexcept { return r.num_computed < r.turn_until ? r.turn_until : 0; }

  AdmissionView running_{};
  std::int64_t turn_blocks_ = 0;  ///< that those who are guarded miss until their turns end: set aside, so that no turn is in another's way

 protected:
  bool running_known_ = false;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
