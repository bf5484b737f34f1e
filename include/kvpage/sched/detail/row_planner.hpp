/// \file RowPlanner: gives rows and blocks to running sequences inside the open transaction.
#pragma once

#include <kvpage/sched/detail/sequence_starter.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// The first half of a plan: rows for those that run.
template <class Core>
class RowPlanner : public SequenceStarter<Core> {
 protected:
  using Base = SequenceStarter<Core>;
  using Base::core_, Base::step_, Base::txn_, Base::budget_left_, Base::decodes_left_, Base::request, Base::leads, Base::planned;
  using Base::Base;

  /// Rows for a sequence that has `computed` of its tokens: the catch-up rule, chunk and budget limits. Never more than `want`.
  [[nodiscard]] std::int64_t chunk(std::int64_t computed, std::int64_t want) const noexcept {
    const std::int64_t n = std::min({want, core_.config.max_chunk_tokens, budget_left_ - decodes_left_});
    return n == want ? n : aligned(computed, n);
  }
  /// A chunk that does not end its sequence ends at an absolute multiple of chunk_align; 0 when there is none.
  [[nodiscard]] std::int64_t aligned(std::int64_t computed, std::int64_t n) const noexcept {
    return std::max<std::int64_t>(0, (computed + n) / core_.config.chunk_align * core_.config.chunk_align - computed);
  }

  /// Blocks for tokens [0, end), those from `stored` on writable; all or nothing.
  CacheResult<void> try_reserve(SeqId seq, std::int64_t stored, std::int64_t end) {
    const Savepoint before = txn_.mark();
    auto done = txn_.grow(seq, end);
    if (done && stored < end) done = txn_.make_writable(seq, stored, end);
    if (!done) txn_.rollback_to(before);
    return done;
  }

  /// Blocks for up to `want` rows, fewer when blocks are short; preempts only when there would be none. Returns the rows.
  std::int64_t reserve(std::uint32_t slot, const PlannedRow& row, std::int64_t want, bool may_preempt) {
    std::int64_t n = want;
    while (n > 0) {
      const std::int64_t available = core_.cache->capacity().available();
      const auto done = try_reserve(row.seq, row.stored, row.first_pos + n);
      if (done) return n;
      if (done.error().kind != CacheRefusalKind::kNoBlocks) return 0;  // copies or undo entries of this step are used up
      const std::int64_t fewer = fitting(row, n, available, done.error());
      if (fewer > 0) {
        n = fewer;
      } else if (may_preempt && this->preempt_one(slot)) {
        n = want;
      } else {
        return 0;
      }
    }
    return 0;
  }

  /// Rows that the available blocks hold, fewer than n. A refused copy of shared blocks takes blocks of its own.
  [[nodiscard]] std::int64_t fitting(const PlannedRow& row, std::int64_t n, std::int64_t available, const CacheRefusal& refusal) const {
    const std::int64_t have = core_.blocks_of(core_.cache->num_tokens(row.seq));
    const std::int64_t wanted = (core_.blocks_of(row.first_pos + n) - have) * core_.num_groups;
    const std::int64_t for_growth = refusal.need == wanted ? available : available - refusal.need;
    const std::int64_t end = (have + std::max<std::int64_t>(0, for_growth) / core_.num_groups) * core_.block_size;
    const std::int64_t fits = aligned(row.first_pos, end - row.first_pos);
    return fits < n ? fits : aligned(row.first_pos, n - 1);
  }

  void add_row(const PlannedRow& row) {
    step_.unsorted.push_back(row);
    request(row.slot).planned_in = step_.serial;
    budget_left_ -= row.count;
    if (leads(row.slot)) step_.leader_advanced = true;
  }

  /// Blocks that a window has passed go before new ones are taken.
  void release_windows(const Request& r) {
    for (std::int64_t g = 0; g < core_.num_groups; ++g) {
      if (core_.cache->config().window(g) == 0) continue;
      const std::int64_t before = core_.cache->table(r.seq, g).first_live;
      if (!txn_.release_before(r.seq, g, r.num_computed)) continue;  // the undo log is full: next time
      step_.window_released += core_.cache->table(r.seq, g).first_live - before;
    }
  }

  /// Plans one running sequence, or one whole beam. Each is tried once.
  void plan_running(std::uint32_t slot) {
    Request& r = request(slot);
    if (r.visited_in == step_.serial || this->lost_row(r)) return;
    this->for_each_member(slot, [&](std::uint32_t member) {
      request(member).visited_in = step_.serial;
      if (request(member).decoding()) --decodes_left_;
    });
    if (r.beam && r.forked) {
      plan_beam(r.family);
    } else {
      plan_rows(slot, r.num_tokens() - r.num_computed);
    }
  }

 private:
  bool plan_rows(std::uint32_t slot, std::int64_t need) {
    const Request& r = request(slot);
    release_windows(r);
    PlannedRow row{.slot = slot, .seq = r.seq, .first_pos = r.num_computed, .stored = r.num_stored};
    row.count = reserve(slot, row, chunk(r.num_computed, need), true);
    if (row.count > 0) add_row(row);
    return row.count > 0;
  }

  /// A beam decodes in lockstep: all answers or none. After a preemption child 0 catches up first, then the others fork from it where
  /// their texts part; all wait before their last token until everyone is there.
  void plan_beam(std::uint32_t family) {
    bool lockstep = true;
    core_.requests.for_each_open(family, [&](std::uint32_t s) {
      lockstep = lockstep && request(s).has_seq && request(s).num_tokens() - request(s).num_computed == 1;
    });
    const auto before = this->mark();
    const bool started = request(family).num_tokens() - request(family).num_computed == 1;
    bool all = true;
    core_.requests.for_each_open(family, [&](std::uint32_t s) {
      if (lockstep && !all) return;
      const std::int64_t need = (lockstep ? request(s).num_tokens() : Core::catch_up_tokens(request(s))) - request(s).num_computed;
      if (!request(s).has_seq) {
        if (started) start_from_first(s, request(family));
      } else if (need > 0) {
        all = plan_rows(s, need) && all;
      }
    });
    if (lockstep && !all) this->rollback_to(before);
  }

  void start_from_first(std::uint32_t slot, const Request& first) {
    const auto before = this->mark();
    const Request& r = request(slot);
    const auto end = r.tokens.begin() + (r.num_tokens() - 2);
    const std::int64_t common = std::min<std::int64_t>(std::mismatch(r.tokens.begin(), end, first.tokens.begin()).first - r.tokens.begin(),
                                                       first.num_stored);
    PlannedRow row{.slot = slot, .first_pos = common, .stored = common, .hit_tokens = common, .admitted = true};
    const auto fork = txn_.fork(first.seq);
    if (!fork) return;
    row.seq = *fork;
    if (!txn_.truncate(row.seq, common)) {  // a window has passed that point
      this->rollback_to(before);
      if (!this->start_sequence(slot, row, false)) return;
    }
    row.count = reserve(slot, row, chunk(row.first_pos, Core::catch_up_tokens(r) - row.first_pos), true);
    if (row.count > 0) {
      add_row(row);
    } else {
      this->rollback_to(before);
    }
  }
};

}  // namespace detail
KVPAGE_END_NAMESPACE
