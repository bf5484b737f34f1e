/// \file BlockAllocatorConfig: the sizes from which the allocator lays out the caller's memory, once.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/base/types.hpp>

#include <algorithm>
#include <array>

KVPAGE_BEGIN_NAMESPACE

/// Tables per sequence at most: one per kind of attention that a model mixes (full, sliding window).
inline constexpr std::int64_t kMaxCacheGroups = 4;

/// Sizes of a BlockAllocator. A 0 marked "derived" is replaced by the stated value.
struct BlockAllocatorConfig {
  std::int64_t num_blocks = 0;          ///< pages of the pool, shared by all groups
  std::int64_t block_size = 16;         ///< tokens per block, a power of two in [1, 1024]
  std::int64_t max_seqs = 1;            ///< live sequences
  std::int64_t max_blocks_per_seq = 0;  ///< entries of one table; derived: num_blocks
  std::int64_t num_groups = 1;          ///< tables per sequence
  /// Per group: 0 = full attention, W = sliding window of W tokens.
  std::array<std::int64_t, kMaxCacheGroups> window_tokens{};
  std::int64_t max_log_entries = 0;  ///< undo entries over all unsettled transactions; derived: see with_defaults
  std::int64_t max_copies = 0;       ///< copies of one step, at most 16383; derived: 2 * max_seqs * num_groups
  std::int64_t max_pins = 64;        ///< pins at one time

  [[nodiscard]] constexpr std::int64_t window(std::int64_t group) const noexcept {
    return window_tokens[static_cast<std::size_t>(group)];
  }

  /// This configuration with the derived values filled in. Errors: ConfigError for each value that cannot work.
  [[nodiscard]] BlockAllocatorConfig with_defaults() const {
    require(num_blocks >= 1, "num_blocks must be at least 1", num_blocks, 1, "blocks");
    require(num_blocks <= kMaxBlocks, "num_blocks is above the largest block id", num_blocks, kMaxBlocks, "blocks");
    require(block_size >= 1 && block_size <= 1024 && (block_size & (block_size - 1)) == 0,
            "block_size must be a power of two of at most 1024", block_size, 1024, "tokens");
    require(max_seqs >= 1 && max_seqs <= kMaxBlocks, "max_seqs must be at least 1", max_seqs, 1, "sequences");
    require(num_groups >= 1 && num_groups <= kMaxCacheGroups, "num_groups must be in [1, 4]", num_groups,
            kMaxCacheGroups, "groups");
    bool all_windows = true;  // then a table can be longer than the pool: its start was released
    for (std::int64_t g = 0; g < num_groups; ++g) {
      require(window(g) >= 0, "a window is 0 (full) or positive", window(g), 0, "tokens");
      all_windows = all_windows && window(g) > 0;
    }
    const std::int64_t longest = all_windows ? kMaxBlocks : num_blocks;
    require(max_blocks_per_seq >= 0 && max_blocks_per_seq <= longest, "max_blocks_per_seq must be within the pool (0 = num_blocks)",
            max_blocks_per_seq, longest, "blocks");
    const std::int64_t least_log = 3 * num_groups + 3;  // fewer, and a sequence of one block could begin but never end
    require(max_log_entries == 0 || max_log_entries >= least_log, "max_log_entries is too small to end a sequence (0 = derived)",
            max_log_entries, least_log, "entries");
    require(max_copies >= 0 && max_copies <= kMaxCopies, "max_copies must be in [0, 16383]", max_copies, kMaxCopies, "copies");
    require(max_pins >= 0 && max_pins <= kMaxBlocks, "max_pins must not be negative", max_pins, 0, "pins");
    BlockAllocatorConfig full = *this;
    if (full.max_blocks_per_seq == 0) full.max_blocks_per_seq = num_blocks;
    if (full.max_copies == 0) full.max_copies = std::min(kMaxCopies, 2 * max_seqs * num_groups);
    // Three unsettled transactions that each replace the whole pool, or end one sequence of full length per group.
    if (full.max_log_entries == 0) full.max_log_entries = 6 * (num_blocks + full.max_blocks_per_seq * num_groups) + 16 * max_seqs + 256;
    return full;
  }

 private:
  static constexpr std::int64_t kMaxCopies = 0x3FFF;  // those of four steps in flight are counted in 16 bits
  static constexpr std::int64_t kMaxBlocks = 0x7FFF'FFFF;  // links and map slots keep one bit of 32 spare

  static void require(bool holds, const char* what, std::int64_t value, std::int64_t limit, const char* unit) {
    if (!holds) throw_config_error(what, value, limit, unit);
  }
};

KVPAGE_END_NAMESPACE
