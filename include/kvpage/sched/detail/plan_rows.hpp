/// \file Rows and blocks of sequences: new ones with what is cached of their tokens, and those that run.
#pragma once

#include <kvpage/cache/tier_extension.hpp>
#include <kvpage/sched/detail/preempt.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// A new sequence. With `may_load` it may get blocks for pages of the host tier instead of rows: row.loads says so.
template <SchedulerCoreType Core>
bool start_sequence(Core& core, std::uint32_t slot, PlannedRow& row, bool may_load) {
  const Request& r = core.requests[slot];
  const auto seq = core.txn->create(r.name_space);
  if (!seq) return false;
  row.seq = *seq;
  row.first_pos = row.stored = 0;
  if constexpr (Core::kIndexed) {
    const PrefixQuery query{.name_space = r.name_space, .tokens = r.tokens, .max_tokens = longest_hit(core, r)};
    PrefixHit hit = core.cache->match(query);
    if (!core.plan.partial_hits) hit = hit.without_partial();
    if constexpr (Core::kTiered) row.loads = may_load && start_load(core, slot, *seq, query, hit);
    if (row.loads) row.stored = hit.without_partial().num_tokens;
    if (!row.loads && hit.num_tokens > 0) {
      const auto shared = core.txn->share(*seq, hit);
      if (shared) row.stored = shared->num_tokens;  // else no undo entries are left: it is computed instead
    }
    row.first_pos = row.hit_tokens = std::min(row.stored, r.num_tokens() - 1);
  }
  return true;
}

/// A full hit leaves a row that only looks; behind a window it would look one token further back than the hit kept.
[[nodiscard]] inline std::int64_t longest_hit(const SchedulerState& core, const Request& r) {
  if (!core.config.share_prefixes) return 0;
  const std::int64_t longest = r.beam && r.forked ? r.num_tokens() - 2 : core.has_windows ? r.num_tokens() - 1 : r.num_tokens();
  return r.max_hit_tokens < 0 ? longest : std::min(longest, r.max_hit_tokens);
}

/// Shares the full blocks of the hit and makes room for the pages that the host tier has behind them, as many as find blocks. False,
/// with nothing changed, when there are none, or when computing them is estimated to be as cheap.
template <SchedulerCoreType Core>
bool start_load(Core& core, std::uint32_t slot, SeqId seq, const PrefixQuery& query, const PrefixHit& hit) {
  if (core.cache->tier() == nullptr || core.requests[slot].load_failed) return false;
  const auto before = mark_plan(core);
  for (std::int64_t limit = query.max_tokens / core.block_size - hit.num_blocks; limit > 0;) {
    const std::int64_t num_blocks = hold_pages(core, query, hit, limit);
    if (num_blocks == 0) return false;
    limit = make_room(core, seq, hit, num_blocks);
    if (limit == num_blocks) {
      const std::size_t first = core.step.load_slots.size() - static_cast<std::size_t>(num_blocks * core.num_groups);
      core.step.loads.push_back({.slot = slot, .seq = seq, .hit_blocks = hit.num_blocks, .num_blocks = num_blocks, .first_slot = first});
      return true;
    }
    rollback_plan(core, before);
  }
  return false;
}

/// Holds the pages of up to `limit` blocks behind the hit; returns the blocks. Their slots come last in core.step.load_slots.
template <SchedulerCoreType Core>
std::int64_t hold_pages(Core& core, const PrefixQuery& query, const PrefixHit& hit, std::int64_t limit) {
  const StepCosts costs = core.env->costs();
  const std::int64_t block_ns = core.block_size * costs.prefill_ns_per_token;
  if (costs.copy_ns_per_block >= block_ns) return 0;
  PrefixQuery within = query;
  within.max_tokens = (hit.num_blocks + limit) * core.block_size;
  const std::size_t first = core.step.load_slots.size();
  core.step.load_slots.resize(first + static_cast<std::size_t>(limit * core.num_groups), kNoTierSlot);
  const std::span<std::uint32_t> slots = std::span{core.step.load_slots}.subspan(first);
  const std::int64_t num_blocks = hold_extension(*core.cache->tier(), core.cache->index(), within, hit, slots);
  const std::int64_t num_pages = std::ssize(slots) - std::count(slots.begin(), slots.end(), kNoTierSlot);
  const std::int64_t saved_ns = num_blocks * block_ns - hit.partial_tokens * costs.prefill_ns_per_token;
  const bool worth = num_pages * costs.copy_ns_per_block < saved_ns;
  if (!worth) release_slots(*core.cache->tier(), slots);
  core.step.load_slots.resize(first + (worth ? static_cast<std::size_t>(num_blocks * core.num_groups) : 0));
  return worth ? num_blocks : 0;
}

/// Blocks behind the hit, one after the other, so that a window gives back what it has passed before more is taken: a small pool can
/// load a long prompt. Returns how many there are room for.
template <SchedulerCoreType Core>
std::int64_t make_room(Core& core, SeqId seq, const PrefixHit& hit, std::int64_t num_blocks) {
  if (hit.num_blocks > 0 && !core.txn->share(seq, hit.without_partial())) return 0;
  for (std::int64_t i = 0; i < num_blocks; ++i) {
    const std::int64_t end = (hit.num_blocks + i + 1) * core.block_size;
    if (!core.txn->grow(seq, end)) return i;
    for (std::int64_t g = 0; core.has_windows && g < core.num_groups; ++g) {
      if (!core.txn->release_before(seq, g, end)) return i;
    }
  }
  return num_blocks;
}

/// A chunk that does not end its sequence ends at an absolute multiple of chunk_align; 0 when there is none.
[[nodiscard]] inline std::int64_t aligned_rows(const SchedulerState& core, std::int64_t computed, std::int64_t n) {
  return std::max<std::int64_t>(0, (computed + n) / core.config.chunk_align * core.config.chunk_align - computed);
}

/// Rows for a sequence that has `computed` of its tokens: the catch-up rule, chunk and budget limits. Never more than `want`.
[[nodiscard]] inline std::int64_t chunk_rows(const SchedulerState& core, std::int64_t computed, std::int64_t want) {
  const std::int64_t n = std::min({want, core.config.max_chunk_tokens, core.plan.budget_left - core.plan.decodes_left});
  return n == want ? n : aligned_rows(core, computed, n);
}

/// Blocks for tokens [0, end), those from `stored` on writable; all or nothing.
template <SchedulerCoreType Core>
CacheResult<void> try_reserve(Core& core, SeqId seq, std::int64_t stored, std::int64_t end) {
  const Savepoint before = core.txn->mark();
  auto done = core.txn->grow(seq, end);
  if (done && stored < end) done = core.txn->make_writable(seq, stored, end);
  if (!done) core.txn->rollback_to(before);
  return done;
}

/// Blocks for up to `want` rows, fewer when blocks are short; preempts only when there would be none. Returns the rows.
template <SchedulerCoreType Core>
std::int64_t reserve_rows(Core& core, std::uint32_t slot, const PlannedRow& row, std::int64_t want, bool may_preempt) {
  std::int64_t n = want;
  while (n > 0) {
    const std::int64_t available = core.cache->capacity().available();
    const auto done = try_reserve(core, row.seq, row.stored, row.first_pos + n);
    if (done) return n;
    if (done.error().kind != CacheRefusalKind::kNoBlocks) return 0;  // copies or undo entries of this step are used up
    const std::int64_t fewer = fitting(core, row, n, available, done.error());
    if (fewer > 0) {
      n = fewer;
    } else if (may_preempt && preempt_one(core, slot)) {
      n = want;
    } else {
      return 0;
    }
  }
  return 0;
}

/// Rows that the available blocks hold, fewer than n. A refused copy of shared blocks takes blocks of its own.
template <SchedulerCoreType Core>
[[nodiscard]] std::int64_t fitting(const Core& core, const PlannedRow& row, std::int64_t n, std::int64_t available,
                                   const CacheRefusal& refusal) {
  const std::int64_t have = core.blocks_of(core.cache->num_tokens(row.seq));
  const std::int64_t wanted = (core.blocks_of(row.first_pos + n) - have) * core.num_groups;
  const std::int64_t for_growth = refusal.need == wanted ? available : available - refusal.need;
  const std::int64_t end = (have + std::max<std::int64_t>(0, for_growth) / core.num_groups) * core.block_size;
  const std::int64_t fits = aligned_rows(core, row.first_pos, end - row.first_pos);
  return fits < n ? fits : aligned_rows(core, row.first_pos, n - 1);
}

inline void add_row(SchedulerState& core, const PlannedRow& row) {
  core.step.unsorted.push_back(row);
  core.requests[row.slot].planned_in = core.step.serial;
  core.plan.budget_left -= row.count;
  if (core.leads(row.slot)) core.plan.leader_advanced = true;
}

/// Blocks that a window has passed go before new ones are taken.
template <SchedulerCoreType Core>
void release_windows(Core& core, const Request& r) {
  for (std::int64_t g = 0; g < core.num_groups; ++g) {
    if (core.pool.window(g) == 0) continue;
    const std::int64_t before = core.cache->table(r.seq, g).first_live;
    if (!core.txn->release_before(r.seq, g, r.num_computed)) continue;  // the undo log is full: next time
    core.plan.window_released += core.cache->table(r.seq, g).first_live - before;
  }
}

/// Plans one running sequence, or one whole beam. Each is tried once.
template <SchedulerCoreType Core>
void plan_running(Core& core, std::uint32_t slot) {
  Request& r = core.requests[slot];
  if (r.visited_in == core.step.serial || core.lost_row(r)) return;
  core.for_each_member(slot, [&](std::uint32_t member) {
    core.requests[member].visited_in = core.step.serial;
    if (core.requests[member].decoding()) --core.plan.decodes_left;
  });
  if (r.beam && r.forked) {
    plan_beam(core, r.family);
  } else {
    plan_rows(core, slot, r.num_tokens() - r.num_computed);
  }
}

template <SchedulerCoreType Core>
bool plan_rows(Core& core, std::uint32_t slot, std::int64_t need) {
  const Request& r = core.requests[slot];
  release_windows(core, r);
  PlannedRow row{.slot = slot, .seq = r.seq, .first_pos = r.num_computed, .stored = r.num_stored};
  row.count = reserve_rows(core, slot, row, chunk_rows(core, r.num_computed, need), true);
  if (row.count > 0) add_row(core, row);
  return row.count > 0;
}

/// A beam decodes in lockstep: all answers or none. After a preemption child 0 catches up first, then the others fork from it where
/// their texts part; all wait before their last token until everyone is there.
template <SchedulerCoreType Core>
void plan_beam(Core& core, std::uint32_t family) {
  bool lockstep = true;
  core.requests.for_each_open(family, [&](std::uint32_t s) {
    lockstep = lockstep && core.requests[s].has_seq && core.requests[s].num_tokens() - core.requests[s].num_computed == 1;
  });
  const auto before = mark_plan(core);
  const bool started = core.requests[family].num_tokens() - core.requests[family].num_computed == 1;
  bool all = true;
  core.requests.for_each_open(family, [&](std::uint32_t s) {
    if (lockstep && !all) return;
    const Request& r = core.requests[s];
    const std::int64_t need = (lockstep ? r.num_tokens() : core.catch_up_tokens(r)) - r.num_computed;
    if (!r.has_seq) {
      if (started) start_from_first(core, s, core.requests[family]);
    } else if (need > 0) {
      all = plan_rows(core, s, need) && all;
    }
  });
  if (lockstep && !all) rollback_plan(core, before);
}

template <SchedulerCoreType Core>
void start_from_first(Core& core, std::uint32_t slot, const Request& first) {
  const auto before = mark_plan(core);
  const Request& r = core.requests[slot];
  const auto end = r.tokens.begin() + (r.num_tokens() - 2);
  const std::int64_t common = std::min<std::int64_t>(std::mismatch(r.tokens.begin(), end, first.tokens.begin()).first - r.tokens.begin(),
                                                     first.num_stored);
  PlannedRow row{.slot = slot, .first_pos = common, .stored = common, .hit_tokens = common, .admitted = true};
  const auto fork = core.txn->fork(first.seq);
  if (!fork) return;
  row.seq = *fork;
  if (!core.txn->truncate(row.seq, common)) {  // a window has passed that point
    rollback_plan(core, before);
    if (!start_sequence(core, slot, row, false)) return;
  }
  row.count = reserve_rows(core, slot, row, chunk_rows(core, row.first_pos, core.catch_up_tokens(r) - row.first_pos), true);
  if (row.count > 0) {
    add_row(core, row);
  } else {
    rollback_plan(core, before);
  }
}

}  // namespace detail
KVPAGE_END_NAMESPACE
