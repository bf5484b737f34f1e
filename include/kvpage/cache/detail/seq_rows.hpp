/// \file SeqRows: the sequences and their block tables, one fixed-stride row per (sequence, group).
#pragma once

#include <kvpage/cache/block_allocator_config.hpp>
#include <kvpage/cache/block_ids.hpp>
#include <kvpage/cache/block_table.hpp>
#include <kvpage/cache/detail/arena.hpp>
#include <kvpage/cache/detail/block_records.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// How far a sequence has been published: the last index node of its chain and the full blocks up to it.
struct PublishedChain {
  std::uint32_t node = kNoLink;
  std::uint32_t num_blocks = 0;
  std::uint32_t generation = 0;  ///< of the node: a chain behind a window can lose it
  friend constexpr bool operator==(const PublishedChain&, const PublishedChain&) = default;
};

/// Where a sequence's prefixes belong. Packs into 32 bits for the undo log.
struct SeqOrigin {
  std::uint32_t name_space = 0;
  bool detached = false;  ///< a reset forgot its prefixes: it publishes no more

  [[nodiscard]] std::uint32_t packed() const noexcept { return name_space << 1 | (detached ? 1u : 0u); }
  [[nodiscard]] static SeqOrigin unpack(std::uint32_t bits) noexcept { return {bits >> 1, (bits & 1u) != 0}; }
};

/// One sequence.
struct SeqRow {
  std::int64_t num_tokens = 0;      ///< tokens that have a place (reserved)
  std::uint64_t settled_after = 0;  ///< newest step in flight when a direct commit changed this row
  PublishedChain chain;
  SeqOrigin origin;
  std::uint32_t generation = 0;
  std::uint32_t num_entries = 0;
  std::uint32_t first_live[kMaxCacheGroups] = {};
  std::uint32_t reported_generation = 0;  ///< of the sequence that events last named
  bool alive = false;
  bool content_lost = false;  ///< aborted steps may have overwritten its tokens
};

/// Rows and tables. Slots of dead rows form a LIFO stack.
class SeqRows {
 public:
  void attach(Arena& arena, const BlockAllocatorConfig& config) {
    rows_ = arena.cut<SeqRow>(config.max_seqs);
    free_slots_ = arena.cut<std::uint32_t>(config.max_seqs);
    const auto num_entries = checked_mul(config.max_seqs * config.num_groups, config.max_blocks_per_seq);  // 2^31 x 4 x 2^31 at most
    if (!num_entries) throw_config_error("the block tables are larger than memory can be", config.max_seqs, 0, "sequences");
    entries_ = arena.cut_raw<BlockId>(*num_entries);
    stride_ = config.max_blocks_per_seq;
    num_groups_ = config.num_groups;
    for (std::size_t i = 0; i < free_slots_.size(); ++i) free_slots_[i] = static_cast<std::uint32_t>(free_slots_.size() - 1 - i);
  }

  [[nodiscard]] std::int64_t num_live() const noexcept { return num_live_; }
  [[nodiscard]] std::int64_t max_seqs() const noexcept { return static_cast<std::int64_t>(rows_.size()); }
  [[nodiscard]] std::span<SeqRow> rows() noexcept { return rows_; }
  [[nodiscard]] std::span<const SeqRow> rows() const noexcept { return rows_; }
  [[nodiscard]] SeqRow& row(std::uint32_t slot) noexcept { return rows_[slot]; }
  [[nodiscard]] const SeqRow& row(std::uint32_t slot) const noexcept { return rows_[slot]; }

  [[nodiscard]] bool alive(SeqId seq) const noexcept {
    return seq.slot < rows_.size() && rows_[seq.slot].alive && rows_[seq.slot].generation == seq.generation;
  }

  /// The table of (slot, group), [max_blocks_per_seq]; only the first row.num_entries hold values.
  [[nodiscard]] BlockId* table(std::uint32_t slot, std::int64_t group) noexcept { return entries_.data() + offset(slot, group); }
  [[nodiscard]] const BlockId* table(std::uint32_t slot, std::int64_t group) const noexcept {
    return entries_.data() + offset(slot, group);
  }

  /// The row that the next `open` takes. Requires: num_live() < max_seqs().
  [[nodiscard]] std::uint32_t next_slot() const noexcept { return free_slots_[static_cast<std::size_t>(max_seqs() - 1 - num_live_)]; }

  /// Starts a row, without tokens. Its former generation and origin are what `restore_identity` needs.
  SeqId open(const SeqOrigin& origin) noexcept {
    const std::uint32_t slot = next_slot();
    ++num_live_;
    restore_identity(slot, ++last_generation_, origin);
    rows_[slot].alive = true;
    return {slot, rows_[slot].generation};
  }
  void close(std::uint32_t slot) noexcept {
    rows_[slot].alive = false;
    free_slots_[static_cast<std::size_t>(max_seqs() - num_live_--)] = slot;
  }
  /// Undoes `close`. The slot need not be the last one closed.
  void reopen(std::uint32_t slot) noexcept {
    const auto top = static_cast<std::size_t>(max_seqs() - 1 - num_live_);
    for (std::size_t i = top + 1; i-- > 0;) {
      if (free_slots_[i] != slot) continue;
      for (; i < top; ++i) free_slots_[i] = free_slots_[i + 1];
      break;
    }
    rows_[slot].alive = true;
    ++num_live_;
  }
  /// With `close`, undoes `open`: an earlier sequence of the slot can come back under its own id. A spent generation is not given again.
  void restore_identity(std::uint32_t slot, std::uint32_t generation, const SeqOrigin& origin) noexcept {
    SeqRow& row = rows_[slot];
    row.generation = generation;
    row.origin = origin;
    row.chain = {};  // and everything else as a sequence without tokens has it
    row.num_tokens = 0;
    row.num_entries = 0;
    row.content_lost = false;
    for (std::uint32_t& first : row.first_live) first = 0;
  }

  /// Free slots, next one last.
  [[nodiscard]] std::span<const std::uint32_t> free_slots() const noexcept {
    return free_slots_.first(static_cast<std::size_t>(max_seqs() - num_live_));
  }

 private:
  [[nodiscard]] std::size_t offset(std::uint32_t slot, std::int64_t group) const noexcept {
    return static_cast<std::size_t>((static_cast<std::int64_t>(slot) * num_groups_ + group) * stride_);
  }

  std::span<SeqRow> rows_;
  std::span<std::uint32_t> free_slots_;
  std::span<BlockId> entries_;
  std::int64_t stride_ = 0;
  std::int64_t num_groups_ = 0;
  std::int64_t num_live_ = 0;
  std::uint32_t last_generation_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
