/// \file Groups of sequences whose tables start alike: their rows take the shared part as one tile, so that it is read once (cascade).
#pragma once

#include <kvpage/kernels/paged_attention/cpu_plan.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE

namespace detail {

/// Sequences that are planned together; a larger batch is planned in parts, so that scratch does not grow with it.
inline constexpr std::int64_t kPlannedSeqs = 1024;

/// A sequence's place in the order of work. Members of a group stand side by side, behind the first one, which describes the group.
/// Plain bytes: the entries of a plan.
struct PlannedSeq {
  std::int32_t seq = 0;
  std::int32_t num_members = 1;    ///< of the group that starts here; 1 = no group
  std::int64_t whole_splits = 0;   ///< leading splits that every row of the sequence sees wholly; 0 = never in a group
  std::int64_t shared_splits = 0;  ///< leading splits whose pages all members share
  std::int64_t first_item = 0;     ///< index of its first item of work; of a member behind the first one: of the next group's
};

/// Whether one tile of several sequences is faster than a tile for each. Rows that already use a page often keep the arithmetic
/// busy, so that reading it once more costs nothing; integer dots do so from few rows on. Measured, and decides no bit.
template <KVStorage KV>
constexpr bool gains_from_groups(const AttentionLaunch& launch) noexcept {
  return launch.staged || launch.group <= (kIntegerDots<typename KV::Key> ? 1 : 4);
}

/// Finds the groups of a launch. A member joins where that saves reading: the group's rows must fit one tile.
///
/// Rows keep their operations and the order of these: a partial result of a split is the same in a tile of any rows.
template <KVStorage KV, Element Q, Element Out>
class AttentionGroups {
 public:
  /// A group has at most `most_tokens` rows per query head; 0 = no groups.
  AttentionGroups(const PagedAttentionArgs<KV, Q, Out>& args, std::int64_t most_tokens, PlannedSeq* order) noexcept
      : args_(args), tables_(args.view.tables), block_size_(args.view.dims.block_size), most_tokens_(most_tokens), order_(order) {}

  /// Fills order [num_seqs]. Returns the key positions that members need not read, because their group does.
  /// Cost: O(num_seqs log num_seqs + table entries).
  std::int64_t plan() noexcept {
    std::int64_t num_candidates = 0;
    for (std::int64_t s = 0; s < tables_.num_seqs; ++s) {
      order_[s] = {static_cast<std::int32_t>(s), 1, whole_splits(s), 0, 0};
      num_candidates += order_[s].whole_splits > 0 ? 1 : 0;
    }
    if (num_candidates < 2) return 0;
    std::sort(order_, order_ + tables_.num_seqs, [this](const PlannedSeq& a, const PlannedSeq& b) { return starts_before(a, b); });
    std::int64_t saved_tokens = 0;
    for (std::int64_t first = 0; first < num_candidates; first += order_[first].num_members) {
      form_group(first, num_candidates);
      saved_tokens += (order_[first].num_members - 1) * order_[first].shared_splits * kAttentionSplitTokens;
    }
    return saved_tokens;
  }

 private:
  const BlockId* blocks(const PlannedSeq& planned) const noexcept { return tables_.block_ids + tables_.indptr[planned.seq]; }

  std::int64_t whole_splits(std::int64_t s) const noexcept {
    const QuerySpan& seq = args_.seqs[s];
    if (seq.q_count < 1 || 2 * seq.q_count > most_tokens_) return 0;
    if (args_.window != 0 && seq.first_pos + seq.q_count > args_.window) return 0;
    return std::max<std::int64_t>(0, std::min(tables_.kv_lens[s], seq.first_pos + 1)) / kAttentionSplitTokens;
  }

  /// Candidates come first, by the pages of their first split; so those that may share stand side by side.
  bool starts_before(const PlannedSeq& a, const PlannedSeq& b) const noexcept {
    if ((a.whole_splits > 0) != (b.whole_splits > 0)) return a.whole_splits > 0;
    if (a.whole_splits > 0) {
      const std::int64_t count = ceil_div(kAttentionSplitTokens, block_size_);
      const BlockId* ids = blocks(a);
      const auto [x, y] = std::mismatch(ids, ids + count, blocks(b));
      if (x != ids + count) return x->value < y->value;
    }
    return a.seq < b.seq;
  }

  std::int64_t common_splits(const PlannedSeq& a, const PlannedSeq& b, std::int64_t most) const noexcept {
    most = std::min(most, b.whole_splits);
    const std::int64_t count = ceil_div(most * kAttentionSplitTokens, block_size_);
    const BlockId* ids = blocks(a);
    const std::int64_t equal = std::mismatch(ids, ids + count, blocks(b)).first - ids;
    return std::min(most, equal * block_size_ / kAttentionSplitTokens);
  }

  /// The group that starts at `first`: members join as long as their rows fit and what is saved does not shrink.
  void form_group(std::int64_t first, std::int64_t num_candidates) noexcept {
    PlannedSeq& group = order_[first];
    std::int64_t num_tokens = args_.seqs[group.seq].q_count;
    std::int64_t shared = group.whole_splits;
    for (std::int64_t next = first + 1; next < num_candidates; ++next) {
      num_tokens += args_.seqs[order_[next].seq].q_count;
      const std::int64_t common = common_splits(group, order_[next], shared);
      if (num_tokens > most_tokens_ || common * group.num_members < shared * (group.num_members - 1) || common == 0) break;
      shared = common;
      ++group.num_members;
    }
    if (group.num_members > 1) group.shared_splits = shared;
  }

  const PagedAttentionArgs<KV, Q, Out>& args_;
  const KVTables& tables_;
  std::int64_t block_size_;
  std::int64_t most_tokens_;
  PlannedSeq* order_;
};

}  // namespace detail

KVPAGE_END_NAMESPACE
