/// \file SequenceStarter: new sequences, with what the prefix cache has of their tokens, and loads of what a host tier has behind that.
#pragma once

#include <kvpage/cache/tier_extension.hpp>
#include <kvpage/sched/detail/plan_base.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <class Core>
class SequenceStarter : public PlanBase<Core> {
 protected:
  using Base = PlanBase<Core>;
  using Base::core_, Base::step_, Base::txn_;
  using Base::Base;

  bool partial_hits_ = true;  ///< the source of a partial hit is held while it is copied: in a full pool that can be too much

  /// A new sequence. With `may_load` it may get blocks for pages of the host tier instead of rows: row.loads says so.
  bool start_sequence(std::uint32_t slot, PlannedRow& row, bool may_load) {
    const Request& r = this->request(slot);
    const auto seq = txn_.create(r.name_space);
    if (!seq) return false;
    row.seq = *seq;
    row.first_pos = row.stored = 0;
    if constexpr (Core::kIndexed) {
      const PrefixQuery query{.name_space = r.name_space, .tokens = r.tokens, .max_tokens = longest_hit(r)};
      PrefixHit hit = core_.cache->match(query);
      if (!partial_hits_) hit = hit.without_partial();
      if constexpr (Core::kTiered) row.loads = may_load && start_load(slot, *seq, query, hit);
      if (row.loads) row.stored = hit.without_partial().num_tokens;
      if (!row.loads && hit.num_tokens > 0) {
        const auto shared = txn_.share(*seq, hit);
        if (shared) row.stored = shared->num_tokens;  // else no undo entries are left: it is computed instead
      }
      row.first_pos = row.hit_tokens = std::min(row.stored, r.num_tokens() - 1);
    }
    return true;
  }

 private:
  /// A full hit leaves a row that only looks; behind a window it would look one token further back than the hit kept.
  [[nodiscard]] std::int64_t longest_hit(const Request& r) const noexcept {
    if (!core_.config.share_prefixes) return 0;
    const std::int64_t longest = r.beam && r.forked ? r.num_tokens() - 2 : core_.has_windows ? r.num_tokens() - 1 : r.num_tokens();
    return r.max_hit_tokens < 0 ? longest : std::min(longest, r.max_hit_tokens);
  }

  /// Shares the full blocks of the hit and makes room for the pages that the host tier has behind them, as many as find blocks. False,
  /// with nothing changed, when there are none, or when computing them is estimated to be as cheap.
  bool start_load(std::uint32_t slot, SeqId seq, const PrefixQuery& query, const PrefixHit& hit) {
    if (core_.cache->tier() == nullptr || this->request(slot).load_failed) return false;
    const auto before = this->mark();
    for (std::int64_t limit = query.max_tokens / core_.block_size - hit.num_blocks; limit > 0;) {
      const std::int64_t num_blocks = hold_pages(query, hit, limit);
      if (num_blocks == 0) return false;
      limit = make_room(seq, hit, num_blocks);
      if (limit == num_blocks) {
        const std::size_t first = step_.load_slots.size() - static_cast<std::size_t>(num_blocks * core_.num_groups);
        step_.loads.push_back({.slot = slot, .seq = seq, .hit_blocks = hit.num_blocks, .num_blocks = num_blocks, .first_slot = first});
        return true;
      }
      this->rollback_to(before);
    }
    return false;
  }

  /// Holds the pages of up to `limit` blocks behind the hit; returns the blocks. Their slots come last in step_.load_slots.
  std::int64_t hold_pages(const PrefixQuery& query, const PrefixHit& hit, std::int64_t limit) {
    const StepCosts costs = core_.env->costs();
    const std::int64_t block_ns = core_.block_size * costs.prefill_ns_per_token;
    if (costs.copy_ns_per_block >= block_ns) return 0;
    PrefixQuery within = query;
    within.max_tokens = (hit.num_blocks + limit) * core_.block_size;
    const std::size_t first = step_.load_slots.size();
    step_.load_slots.resize(first + static_cast<std::size_t>(limit * core_.num_groups), kNoTierSlot);
    const std::span<std::uint32_t> slots = std::span{step_.load_slots}.subspan(first);
    const std::int64_t num_blocks = hold_extension(*core_.cache->tier(), core_.cache->index(), within, hit, slots);
    const std::int64_t num_pages = std::ssize(slots) - std::count(slots.begin(), slots.end(), kNoTierSlot);
    const std::int64_t saved_ns = num_blocks * block_ns - hit.partial_tokens * costs.prefill_ns_per_token;
    const bool worth = num_pages * costs.copy_ns_per_block < saved_ns;
    if (!worth) release_slots(*core_.cache->tier(), slots);
    step_.load_slots.resize(first + (worth ? static_cast<std::size_t>(num_blocks * core_.num_groups) : 0));
    return worth ? num_blocks : 0;
  }

  /// Blocks behind the hit, one after the other, so that a window gives back what it has passed before more is taken: a small pool can
  /// load a long prompt. Returns how many there are room for.
  std::int64_t make_room(SeqId seq, const PrefixHit& hit, std::int64_t num_blocks) {
    if (hit.num_blocks > 0 && !txn_.share(seq, hit.without_partial())) return 0;
    for (std::int64_t i = 0; i < num_blocks; ++i) {
      const std::int64_t end = (hit.num_blocks + i + 1) * core_.block_size;
      if (!txn_.grow(seq, end)) return i;
      for (std::int64_t g = 0; core_.has_windows && g < core_.num_groups; ++g) {
        if (!txn_.release_before(seq, g, end)) return i;
      }
    }
    return num_blocks;
  }
};

}  // namespace detail
KVPAGE_END_NAMESPACE
