/// \file BlockMap: the state of every block of a pool, followed from its events alone.
#pragma once

#include <kvpage/cache/cache_events.hpp>
#include <kvpage/cache/capacity_snapshot.hpp>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace kvpage::engine {

/// States of a block, as CapacitySnapshot counts them.
enum class MappedState : std::uint8_t { kClean, kCached, kUsed, kPending };

/// What a picture of the pool shows of one block.
struct MappedBlock {
  std::vector<std::uint32_t> owners;  ///< generation of the sequence of each reference, oldest first; 0 = not a sequence
  std::uint64_t content_key = 0;      ///< 0 = not published
  std::uint64_t taken_step = 0;       ///< when it was taken for its content
  bool findable = false;
  std::uint64_t waits_for = 0;        ///< without references: the step in flight that may still read it

  [[nodiscard]] MappedState state() const noexcept {
    if (!owners.empty()) return MappedState::kUsed;
    if (waits_for != 0) return MappedState::kPending;
    return findable ? MappedState::kCached : MappedState::kClean;
  }
};

/// Follows the events of one allocator.
class BlockMap {
 public:
  explicit BlockMap(std::int64_t num_blocks) : blocks_(static_cast<std::size_t>(num_blocks)) {}

  /// Errors: what the event contradicts. Requires: block ids within the pool.
  [[nodiscard]] std::optional<std::string> apply(const CacheEvent& event);

  [[nodiscard]] const std::vector<MappedBlock>& blocks() const noexcept { return blocks_; }
  /// Blocks that changed since the last call, ascending, each once.
  std::vector<std::uint32_t> take_changed();
  /// Clean, cached, used, pending, num_blocks and num_seqs, counted anew. Cost: linear in the pool.
  [[nodiscard]] CapacitySnapshot recount() const;

 private:
  MappedBlock& change(BlockId block);
  std::optional<std::string> add_reference(const CacheEvent& event);
  std::optional<std::string> drop_reference(const CacheEvent& event);
  std::optional<std::string> start_copy(const CacheEvent& event);
  void end_step(std::uint64_t step, std::uint64_t next);
  void forget_index();

  std::vector<MappedBlock> blocks_;
  std::vector<std::uint32_t> changed_;
  std::deque<std::uint64_t> in_flight_;  ///< sealed or committed, not retired; oldest first
  std::vector<std::uint32_t> waiting_;   ///< blocks that may be pending
  std::unordered_set<std::uint32_t> seqs_;  ///< generations of the live ones
  std::uint64_t step_ = 0;
};

}  // namespace kvpage::engine
