/// \file SwarmWorld: what the swarm test knows without any model of the allocator: texts, and which K/V a block must therefore contain.
#pragma once

#include "cache_alloc/model_world.hpp"

#include <kvpage/cache/block_allocator.hpp>

#include <random>

namespace kvpage_test {

/// (operation, outcome) -> how often.
using Coverage = std::map<std::pair<std::string, std::string>, std::int64_t>;

inline const char* refusal_name(kvpage::CacheRefusalKind kind) {
  static constexpr std::array kNames{"kNoBlocks", "kNoSeqSlot", "kTableFull",  "kDeadSeq",    "kBadLength", "kStaleHit",
                                     "kNotEmpty", "kNotHeld",   "kBusy",       "kOutOfOrder", "kNeedsSeal", "kLogFull",
                                     "kCopiesFull", "kPinLimit", "kBadNamespace", "kNoNamespace"};
  return kNames[static_cast<std::size_t>(kind)];
}

using Tokens = std::vector<kvpage::TokenId>;

/// One sequence as its owner sees it.
struct SwarmSeq {
  kvpage::SeqId id;
  std::uint32_t name_space = 0;
  std::uint32_t extra = 0;  ///< id of what its first block shows beside tokens
  Tokens text;
  std::int64_t written = 0;    ///< tokens whose K/V lie in the blocks
  std::int64_t committed = 0;  ///< of these, accepted for good
};

/// A sealed step and what the owner must put back when it is aborted.
struct SwarmStep {
  kvpage::StepId id;
  std::vector<SwarmSeq> before;
  std::map<kvpage::SeqId, std::int64_t> lengths;  ///< tokens of each sequence that its commit accepts
  bool committed = false;
};

/// Every seed has another pool: groups and windows, block and table sizes, limits that are met, partial hits or none.
struct SwarmConfig {
  kvpage::BlockAllocatorConfig sizes;
  std::int64_t max_nodes = 0;
  std::int64_t token_granule = 1;
  std::int64_t max_tokens = 0;
  bool portable_keys = false;

  explicit SwarmConfig(std::mt19937_64& rng) {
    sizes.block_size = 1 << (1 + rng() % 2);
    sizes.num_groups = 1 + static_cast<std::int64_t>(rng() % 3);
    for (std::int64_t g = 0; g < sizes.num_groups; ++g) {
      sizes.window_tokens[static_cast<std::size_t>(g)] = rng() % 2 == 0 ? 0 : 1 + static_cast<std::int64_t>(rng() % 9);
    }
    sizes.num_blocks = sizes.num_groups * (4 + static_cast<std::int64_t>(rng() % 8));
    sizes.max_seqs = 3;
    sizes.max_blocks_per_seq = std::min<std::int64_t>(sizes.num_blocks, 3 + static_cast<std::int64_t>(rng() % 4));
    sizes.max_pins = 2;
    if (rng() % 4 == 0) sizes.max_log_entries = 64 << rng() % 2;
    if (rng() % 4 == 0) sizes.max_copies = 1;
    if (rng() % 3 == 0) max_nodes = 1 + static_cast<std::int64_t>(rng() % 8);
    token_granule = static_cast<std::int64_t>(rng() % 3);
    portable_keys = rng() % 4 == 0;
    max_tokens = sizes.block_size * sizes.max_blocks_per_seq + 2;  // more than a table holds
  }
};

/// K/V as one number per (block, offset): a hash of everything that it depends on.
class SwarmMemory {
 public:
  explicit SwarmMemory(const kvpage::BlockAllocatorConfig& sizes)
      : block_size_(sizes.block_size), cells_(static_cast<std::size_t>(sizes.num_blocks * sizes.block_size)) {}

  static std::uint64_t content(const SwarmSeq& seq, std::int64_t group, std::int64_t token) {
    kvpage::detail::Digest digest;
    digest.fold(seq.name_space | (std::uint64_t{seq.extra} << 32));
    digest.fold(static_cast<std::uint64_t>(group));
    for (std::int64_t t = 0; t <= token; ++t) digest.fold(seq.text[static_cast<std::size_t>(t)]);
    return digest.value;
  }
  std::uint64_t& at(kvpage::BlockId block, std::int64_t offset) {
    return cells_[static_cast<std::size_t>(static_cast<std::int64_t>(block.value) * block_size_ + offset)];
  }

 private:
  std::int64_t block_size_;
  std::vector<std::uint64_t> cells_;
};

}  // namespace kvpage_test
