/// \file MergeTable: which two tokens merge into which, and how urgently.
#pragma once

#include "engine/tokenizer/byte_hash.hpp"
#include "engine/tokenizer/tokenizer_data.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvpage::engine {

/// "These two never merge": larger than every priority.
inline constexpr std::uint32_t kNoMerge = std::numeric_limits<std::uint32_t>::max();

/// What two neighbours become. The smallest priority merges first.
struct PairMerge {
  std::uint32_t priority = kNoMerge;
  TokenId id = kNoToken;
};

/// The merges of a BPE vocabulary: a hash map from (left, right).
class MergeTable {
 public:
  MergeTable() = default;
  explicit MergeTable(std::size_t num_merges) : slots_(table_slots(num_merges)) {}

  /// Adds a merge; of two for the same pair the first stays. Requires: no more inserts than the constructor was told.
  void insert(TokenId left, TokenId right, PairMerge merge) noexcept {
    const std::uint64_t pair = key(left, right);
    std::size_t slot = first_slot(pair);
    while (slots_[slot].merge.priority != kNoMerge && slots_[slot].pair != pair) slot = (slot + 1) & (slots_.size() - 1);
    if (slots_[slot].merge.priority == kNoMerge) slots_[slot] = {pair, merge};
  }

  /// What the pair becomes; priority kNoMerge if it does not merge.
  PairMerge find(TokenId left, TokenId right) const noexcept {
    const std::uint64_t pair = key(left, right);
    std::size_t slot = first_slot(pair);
    while (slots_[slot].merge.priority != kNoMerge && slots_[slot].pair != pair) slot = (slot + 1) & (slots_.size() - 1);
    return slots_[slot].merge;
  }

  /// What the table takes in the heap.
  std::size_t memory_bytes() const noexcept { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint64_t pair = 0;
    PairMerge merge;
  };

  static constexpr std::uint64_t key(TokenId left, TokenId right) noexcept { return std::uint64_t{left} << 32 | right; }
  std::size_t first_slot(std::uint64_t pair) const noexcept { return static_cast<std::size_t>(mix_bits(pair)) & (slots_.size() - 1); }

  std::vector<Slot> slots_ = std::vector<Slot>(table_slots(0));
};

}  // namespace kvpage::engine
