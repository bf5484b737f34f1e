/// \file BatchPlan: the plain data of one step, in which scheduler and kernels meet.
#pragma once

#include <kvpage/base/copy_op.hpp>
#include <kvpage/base/expected.hpp>
#include <kvpage/cache/block_ids.hpp>
#include <kvpage/cache/block_table.hpp>
#include <kvpage/kv/kv_slot.hpp>
#include <kvpage/kv/query_span.hpp>
#include <kvpage/sched/request.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

KVPAGE_BEGIN_NAMESPACE

/// Whose rows a sequence of the step is.
struct PlannedOwner {
  RequestId request{};
  std::uint32_t child = 0;  ///< which of the request's answers
  SeqId seq{};
  NamespaceId name_space{};
  std::int64_t cached_tokens = -1;  ///< of an answer that this step admits: rows that its prefix hit saved; -1 = it ran before
};

/// An answer that this step takes its row from.
struct PlannedPreemption {
  RequestId request{};
  std::uint32_t child = 0;
  PreemptionKind kind{};
};

/// One token to be drawn from a row of logits. Several samples may share a row (the first tokens of n answers).
struct PlannedSample {
  std::int64_t logit_index = 0;  ///< into logit_rows
  RequestId request{};
  std::uint32_t child = 0;       ///< whose token it is, for the coordinates of the draw
  std::int64_t position = 0;     ///< of the token to be drawn
  std::uint64_t seed = 0;        ///< of the request
};

/// Where one cache group (the layers that share a block table) keeps the keys and values of a step.
struct PlannedGroup {
  std::vector<std::int64_t> indptr;  // [num_seqs + 1], table of sequence s = block_ids[indptr[s], indptr[s + 1])
  std::vector<BlockId> block_ids;    // [indptr[num_seqs]], kNoBlock where a sliding window has passed
  std::vector<KVSlot> write_slots;   // [num_tokens], kNoSlot = query only
};

/// One page that the step is about to overwrite and a host tier keeps.
struct BlockDemotion {
  BlockId block = kNoBlock;
  std::uint32_t tier_slot = 0;
  friend constexpr bool operator==(const BlockDemotion&, const BlockDemotion&) = default;
};

/// One page that comes back from a host tier into a block of a sequence that has no rows in this step.
struct BlockPromotion {
  BlockId block = kNoBlock;
  std::uint32_t tier_slot = 0;
  friend constexpr bool operator==(const BlockPromotion&, const BlockPromotion&) = default;
};

/// How one BlockPromotion went, in the order of the plan.
enum class PromotionOutcome : std::uint8_t {
  kArrived,  ///< the whole page is in its block, as it was stored
  kFailed,   ///< anything else; what is behind it is computed
};

/// Everything a model needs to run one step: which tokens, where their keys and values go, which rows give logits.
/// It owns its numbers and points into nobody's state; reusing one object allocates nothing once its vectors have grown.
/// Order of work: demotions, promotions, copies, forward pass.
struct BatchPlan {
  std::uint64_t step = 0;
  std::vector<QuerySpan> sequences;    // [num_seqs], their rows follow each other
  std::vector<PlannedOwner> owners;      // [num_seqs], or empty when one caller plans by hand
  std::vector<TokenId> tokens;           // [num_tokens], rows of all sequences, in their order
  std::vector<std::int64_t> positions;   // [num_tokens]
  std::vector<std::int64_t> kv_lens;     // [num_seqs], tokens in the cache once the step has run
  std::vector<PlannedGroup> groups;      // [num_groups], in the order of the allocator's groups
  std::vector<BlockDemotion> demotions;    // in order; filled by the seal
  std::vector<BlockPromotion> promotions;  // in order
  std::vector<PlannedOwner> loading;       // whose blocks the promotions fill
  std::vector<PlannedPreemption> preemptions;  // to look at: the scheduler has done it when the plan is sealed
  std::vector<CopyOp> copies;            // in order
  std::vector<std::int64_t> logit_rows;  // ascending rows that give logits
  std::vector<PlannedSample> samples;    // by row, then child

  std::int64_t num_tokens() const noexcept { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t num_seqs() const noexcept { return static_cast<std::int64_t>(sequences.size()); }

  /// True when there is nothing to run. A step may consist of promotions alone.
  bool is_empty() const noexcept { return tokens.empty() && promotions.empty(); }

  /// Empties the plan for `num_groups` cache groups and keeps its memory.
  void clear(std::int64_t num_groups = 1) {
    sequences.clear(), owners.clear(), tokens.clear(), positions.clear(), kv_lens.clear();
    demotions.clear(), promotions.clear(), loading.clear(), copies.clear(), logit_rows.clear(), samples.clear(), preemptions.clear();
    groups.resize(static_cast<std::size_t>(num_groups));
    for (PlannedGroup& group : groups) group.indptr.assign(1, 0), group.block_ids.clear(), group.write_slots.clear();
  }
};

/// What is wrong with a plan: a rule and the sequence or row that breaks it.
struct PlanError {
  const char* rule;
  std::int64_t index;
};

namespace detail {
/// The rules for sequence s: contiguous rows and positions.
inline const char* broken_rule(const BatchPlan& plan, std::size_t s, std::int64_t rows_before) noexcept {
  const QuerySpan& seq = plan.sequences[s];
  if (seq.q_count < 1) return "a planned sequence has at least one token";
  if (seq.q_begin != rows_before) return "the rows of the sequences follow each other without gap";
  if (seq.q_count > plan.num_tokens() - seq.q_begin) return "the rows of a sequence lie inside the step";
  if (seq.first_pos < 0 || plan.kv_lens[s] != seq.first_pos + seq.q_count) return "kv_len = first_pos + q_count";
  for (std::int64_t i = 0; i < seq.q_count; ++i) {
    const auto row = static_cast<std::size_t>(seq.q_begin + i);
    if (plan.positions[row] != seq.first_pos + i) return "positions of a sequence are consecutive";
  }
  return nullptr;
}

/// The rules for sequence s in one group: a table that covers it, slots that agree with the table.
inline const char* broken_rule(const BatchPlan& plan, const PlannedGroup& group, std::size_t s, std::int64_t block_size) noexcept {
  const QuerySpan& seq = plan.sequences[s];
  if (group.indptr[s] < 0 || group.indptr[s + 1] < group.indptr[s]) return "block tables follow each other";
  if (group.indptr[s + 1] - group.indptr[s] < ceil_div(plan.kv_lens[s], block_size)) return "a block table covers kv_len";
  for (std::int64_t i = 0; i < seq.q_count; ++i) {
    const KVSlot slot = group.write_slots[static_cast<std::size_t>(seq.q_begin + i)];
    if (slot == kNoSlot) continue;
    const std::int64_t position = seq.first_pos + i;
    const auto entry = static_cast<std::size_t>(group.indptr[s] + position / block_size);
    if (slot.block == kNoBlock || slot.block != group.block_ids[entry] || slot.offset != position % block_size)
      return "a write slot is the table's place of its position";
  }
  return nullptr;
}

/// The rules for the sizes of one group.
inline const char* broken_rule(const BatchPlan& plan, const PlannedGroup& group) noexcept {
  if (group.write_slots.size() != plan.tokens.size()) return "every token has a position and a slot";
  if (group.indptr.size() != plan.sequences.size() + 1 || group.indptr[0] != 0 ||
      group.indptr.back() != static_cast<std::int64_t>(group.block_ids.size())) {
    return "every sequence has a length and a block table";
  }
  return nullptr;
}

/// The rules for pages that move between pool and host tier.
inline const char* broken_transfer_rule(const BatchPlan& plan) {
  std::vector<std::uint32_t> written;
  for (const BlockDemotion& demotion : plan.demotions) written.push_back(demotion.tier_slot);
  std::sort(written.begin(), written.end());
  if (std::adjacent_find(written.begin(), written.end()) != written.end()) return "no two pages are saved in one slot";
  std::vector<BlockId> loaded;
  for (const BlockPromotion& promotion : plan.promotions) {
    if (std::binary_search(written.begin(), written.end(), promotion.tier_slot)) return "a slot is not written and read in one step";
    loaded.push_back(promotion.block);
  }
  std::sort(loaded.begin(), loaded.end());
  if (std::adjacent_find(loaded.begin(), loaded.end()) != loaded.end()) return "no two pages are loaded into one block";
  const auto is_loaded = [&](BlockId block) { return std::binary_search(loaded.begin(), loaded.end(), block); };
  bool used = is_loaded(kNoBlock);
  for (const PlannedGroup& group : plan.groups) used = used || std::any_of(group.block_ids.begin(), group.block_ids.end(), is_loaded);
  for (const CopyOp& copy : plan.copies) used = used || is_loaded(copy.source) || is_loaded(copy.target);
  return used ? "a block that is loaded is used by nothing else in the step" : nullptr;
}

/// The rules for the rows that give logits, and for what is drawn from them. Whose rows they are is only known with owners.
inline std::optional<PlanError> broken_sample_rule(const BatchPlan& plan) {
  std::int64_t previous = -1;
  for (const std::int64_t row : plan.logit_rows) {
    if (row <= previous || row >= plan.num_tokens()) return PlanError{"logit rows ascend inside the step", row};
    previous = row;
  }
  std::size_t s = 0;
  const PlannedSample* last = nullptr;
  for (const PlannedSample& sample : plan.samples) {
    const std::int64_t index = sample.logit_index;
    if (index < 0 || index >= std::ssize(plan.logit_rows)) return PlanError{"a sample is drawn from a row that gives logits", index};
    const bool ordered = last == nullptr || std::pair{last->logit_index, last->child} < std::pair{index, sample.child};
    if (!ordered) return PlanError{"samples go by row, then by answer", index};
    last = &sample;
    if (plan.owners.size() != plan.sequences.size()) continue;
    const std::int64_t row = plan.logit_rows[static_cast<std::size_t>(index)];
    while (plan.sequences[s].q_begin + plan.sequences[s].q_count <= row) ++s;
    const bool its_last = row + 1 == plan.sequences[s].q_begin + plan.sequences[s].q_count;
    const bool its_own = plan.owners[s].request == sample.request;
    if (!its_last || !its_own) return PlanError{"a sample is drawn from the last row of its request", index};
  }
  return std::nullopt;
}

/// Over all groups: they share one pool.
inline bool slots_are_unique(const BatchPlan& plan) {
  std::vector<std::uint64_t> seen;
  seen.reserve(plan.tokens.size() * plan.groups.size());
  for (const PlannedGroup& group : plan.groups) {
    for (const KVSlot slot : group.write_slots) {
      if (slot != kNoSlot) seen.push_back((std::uint64_t{slot.block.value} << 32) | slot.offset);
    }
  }
  std::sort(seen.begin(), seen.end());
  return std::adjacent_find(seen.begin(), seen.end()) == seen.end();
}
}  // namespace detail

/// Checks every rule that a plan must obey before it may run. Cost: O(tokens log tokens); for tests and checked builds.
inline Expected<void, PlanError> validate(const BatchPlan& plan, std::int64_t block_size) {
  if (plan.positions.size() != plan.tokens.size()) return Unexpected{PlanError{"every token has a position and a slot", 0}};
  const std::size_t num_seqs = plan.sequences.size();
  if (plan.kv_lens.size() != num_seqs) return Unexpected{PlanError{"every sequence has a length and a block table", 0}};
  if (plan.groups.empty()) return Unexpected{PlanError{"a plan has at least one cache group", 0}};
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    if (const char* rule = detail::broken_rule(plan, plan.groups[g])) return Unexpected{PlanError{rule, static_cast<std::int64_t>(g)}};
  }
  std::int64_t rows = 0;
  for (std::size_t s = 0; s < num_seqs; ++s) {
    const char* rule = detail::broken_rule(plan, s, rows);
    for (std::size_t g = 0; rule == nullptr && g < plan.groups.size(); ++g) rule = detail::broken_rule(plan, plan.groups[g], s, block_size);
    if (rule != nullptr) return Unexpected{PlanError{rule, static_cast<std::int64_t>(s)}};
    rows += plan.sequences[s].q_count;
  }
  if (rows != plan.num_tokens()) return Unexpected{PlanError{"every token belongs to a sequence", rows}};
  if (!detail::slots_are_unique(plan)) return Unexpected{PlanError{"no two tokens are written to one slot", 0}};
  if (const char* rule = detail::broken_transfer_rule(plan)) return Unexpected{PlanError{rule, 0}};
  if (const auto broken = detail::broken_sample_rule(plan)) return Unexpected{*broken};
  return {};
}

KVPAGE_END_NAMESPACE
