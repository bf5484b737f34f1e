/// \file SequenceRunner: one sequence through a model, step by step: plan, seal, forward, commit.
#pragma once

#include "engine/language_model.hpp"

#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/cache/no_index.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kvpage::engine {

/// Why tokens could not be computed. What was computed before stays valid.
struct RunError {
  enum class Kind : std::uint8_t { kContextFull, kKernel, kStopped };
  Kind kind;
  std::string message;
};

/// Which of the given tokens need logits.
enum class LogitRows : std::uint8_t { kNone, kLast, kAll };

/// Owns the block table of one sequence and turns tokens into steps. The text never depends on how tokens are cut into
/// steps. Requires: the model outlives it; one runner per model.
class SequenceRunner {
 public:
  /// Gets the index of the token (in the given span) and its logits [vocab_size]; false = stop after this step.
  using LogitsVisitor = std::function<bool(std::int64_t index, std::span<const float> logits)>;
  /// Gets the number of tokens computed so far of the given span; false = stop here.
  using StepVisitor = std::function<bool(std::int64_t done_tokens)>;

  explicit SequenceRunner(LanguageModel& model);

  /// Tokens in the cache.
  std::int64_t num_tokens() const noexcept { return allocator_.num_tokens(seq_); }
  /// Tokens that still fit.
  std::int64_t room_tokens() const noexcept;
  /// Positions computed since construction (more than num_tokens after a truncate).
  std::int64_t computed_positions() const noexcept { return computed_positions_; }

  /// Tokens per step, at most the model's step_tokens().
  void set_chunk_tokens(std::int64_t chunk_tokens);
  void on_step(StepVisitor visitor) { step_visitor_ = std::move(visitor); }

  /// Appends `tokens` to the sequence. Errors: kContextFull (nothing is computed then), kKernel, kStopped (by the visitor).
  Expected<void, RunError> append(std::span<const TokenId> tokens, LogitRows rows, const LogitsVisitor& visit = {});

  /// Forgets everything from `num_tokens` on.
  void truncate(std::int64_t num_tokens);

 private:
  Expected<void, RunError> step(std::span<const TokenId> tokens, bool logits_of_all, bool logits_of_last);
  void plan(std::span<const TokenId> tokens, bool logits_of_all, bool logits_of_last);
  Expected<bool, RunError> visit_logits(std::int64_t first_index, const LogitsVisitor& visit);

  using Allocator = BlockAllocator<NoIndex>;

  LanguageModel& model_;
  std::vector<std::byte> allocator_memory_;
  Allocator allocator_;
  SeqId seq_{};
  BatchPlan plan_;
  StepVisitor step_visitor_;
  std::int64_t chunk_tokens_;
  std::int64_t computed_positions_ = 0;
};

}  // namespace kvpage::engine
