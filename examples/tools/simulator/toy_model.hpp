/// \file ToyModel: a model without weights that sees only what lies in the blocks of the pool, so that any wrong block changes its text.
#pragma once

#include <kvpage/base/philox.hpp>
#include <kvpage/cache/block_allocator_config.hpp>
#include <kvpage/sched/batch_plan.hpp>
#include <kvpage/sched/request.hpp>

#include <algorithm>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// The toy's arithmetic, shared by the model and its oracle.
namespace toy {
/// What a KV slot holds for one token.
[[nodiscard]] constexpr std::uint64_t slot_of(TokenId token, std::int64_t position, NamespaceId name_space) noexcept {
  std::uint64_t x = token * 0x9E37'79B9'7F4A'7C15ull ^ static_cast<std::uint64_t>(position) * 0xC2B2'AE3D'27D4'EB4Full ^
                    (name_space.value + 1) * 0x1656'67B1'9E37'79F9ull;
  x = (x ^ x >> 31) * 0xD6E8'FEB8'6659'FD93ull;
  return x ^ x >> 29;
}
/// The hash of the slots that a token sees goes on with one more.
[[nodiscard]] constexpr std::uint64_t fold(std::uint64_t seen, std::uint64_t slot) noexcept {
  seen = (seen ^ slot) * 0x2545'F491'4F6C'DD1Dull;
  return seen ^ seen >> 32;
}
inline constexpr std::uint64_t kNothingSeen = 0x5851'F42D'4C95'7F2Dull;
inline constexpr std::uint64_t kPoison = 0xBAAD'F00D'BAAD'F00Dull;

/// The token that is drawn from logits (here: one hash) at a position for one answer.
[[nodiscard]] constexpr TokenId draw(std::uint64_t logits, const PlannedSample& sample, TokenId vocab_size) noexcept {
  const auto position = static_cast<std::uint32_t>(sample.position);
  const std::uint64_t bits = draw_bits({.seed = sample.seed, .position = position, .child = sample.child});
  return static_cast<TokenId>(fold(logits, bits) % vocab_size);
}
}  // namespace toy

/// Runs plans: copies, then writes, then the logits of the rows that ask for them. Every group keeps its own slots in its own blocks.
class ToyModel {
 public:
  explicit ToyModel(const BlockAllocatorConfig& config)
      : config_(config), slots_(static_cast<std::size_t>(config.num_blocks * config.block_size), toy::kPoison) {}

  /// A block got a new owner: nothing in it may be read before it is written.
  void poison(BlockId block) {
    std::fill_n(slots_.begin() + offset(block, 0), config_.block_size, toy::kPoison);
  }

  /// The bytes of a block, as a host tier stores them.
  [[nodiscard]] std::span<std::byte> page(BlockId block) noexcept {
    const auto slots = std::span{slots_}.subspan(static_cast<std::size_t>(offset(block, 0)), static_cast<std::size_t>(config_.block_size));
    return std::as_writable_bytes(slots);
  }

  /// The logits of batch.logit_rows, in order. Valid until the next call.
  std::span<const std::uint64_t> run(const BatchPlan& batch) {
    run_partly(batch, batch.num_tokens());
    logits_.clear();
    std::size_t s = 0;
    for (const std::int64_t row : batch.logit_rows) {
      while (row >= batch.sequences[s].q_begin + batch.sequences[s].q_count) ++s;
      std::uint64_t seen = toy::kNothingSeen;
      const std::int64_t position = batch.positions[static_cast<std::size_t>(row)];
      for (std::size_t g = 0; g < batch.groups.size(); ++g) seen = look(batch, s, g, position, seen);
      logits_.push_back(seen);
    }
    return logits_;
  }

  /// A step that fails half way: its copies and the first rows are done.
  void run_partly(const BatchPlan& batch, std::int64_t num_rows) {
    copy(batch);
    for (std::size_t s = 0; s < batch.sequences.size(); ++s) write(batch, s, num_rows);
  }

  /// Writes one token by hand.
  void write(BlockId block, std::int64_t in_block, std::uint64_t slot) { slots_[static_cast<std::size_t>(offset(block, in_block))] = slot; }

 private:
  [[nodiscard]] std::ptrdiff_t offset(BlockId block, std::int64_t in_block) const noexcept {
    return static_cast<std::ptrdiff_t>(std::int64_t{block.value} * config_.block_size + in_block);
  }

  void copy(const BatchPlan& batch) {
    for (const CopyOp& op : batch.copies) {
      std::copy_n(slots_.begin() + offset(op.source, 0), op.num_tokens, slots_.begin() + offset(op.target, 0));
    }
  }

  void write(const BatchPlan& batch, std::size_t s, std::int64_t num_rows) {
    const QuerySpan& span = batch.sequences[s];
    const auto end = static_cast<std::size_t>(std::min(span.q_begin + span.q_count, num_rows));
    for (const PlannedGroup& group : batch.groups) {
      for (auto row = static_cast<std::size_t>(span.q_begin); row < end; ++row) {
        const KVSlot slot = group.write_slots[row];
        if (slot == kNoSlot) continue;
        write(slot.block, slot.offset, toy::slot_of(batch.tokens[row], batch.positions[row], batch.owners[s].name_space));
      }
    }
  }

  [[nodiscard]] std::uint64_t look(const BatchPlan& batch, std::size_t s, std::size_t g, std::int64_t position, std::uint64_t seen) const {
    const std::int64_t window = config_.window(static_cast<std::int64_t>(g));
    const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, position - window + 1);
    const PlannedGroup& group = batch.groups[g];
    const BlockId* table = group.block_ids.data() + group.indptr[s];
    for (std::int64_t p = first; p <= position; ++p) {
      const BlockId block = table[p / config_.block_size];
      seen = toy::fold(seen, block == kNoBlock ? toy::kPoison : slots_[static_cast<std::size_t>(offset(block, p % config_.block_size))]);
    }
    return seen;
  }

  BlockAllocatorConfig config_;
  std::vector<std::uint64_t> slots_;  // [num_blocks, block_size]
  std::vector<std::uint64_t> logits_;
};

KVPAGE_END_NAMESPACE
