/// \file SequenceRunner: given tokens, one sequence after another, through a model: for scores, which need the logits of every position.
#pragma once

#include "engine/page_cache.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kvpage::engine {

/// Why tokens could not be computed. What was computed before stays valid.
struct RunError {
  enum class Kind : std::uint8_t { kContextFull, kPoolFull, kKernel, kStopped };
  Kind kind;
  std::string message;
};

/// Which of the given tokens need logits.
enum class LogitRows : std::uint8_t { kNone, kLast, kAll };

/// Turns tokens into steps. What earlier sequences left in the page cache is not computed again. Logits never depend on how tokens
/// are cut into steps, nor on what was cached. Requires: the model outlives it; one runner per model.
class SequenceRunner {
 public:
  /// Gets the index of the token (in the given span) and its logits [vocab_size]; false = stop after this step.
  using LogitsVisitor = std::function<bool(std::int64_t index, std::span<const float> logits)>;

  explicit SequenceRunner(LanguageModel& model, bool share_prefixes = true);

  /// Tokens of the sequence that are in the cache.
  std::int64_t num_tokens() const noexcept { return static_cast<std::int64_t>(history_.size()); }
  /// Tokens that still fit into the context.
  std::int64_t room_tokens() const noexcept { return context_tokens() - num_tokens(); }
  std::int64_t context_tokens() const noexcept { return model_.context_tokens(); }
  /// Tokens that the newest `start` found in the cache; their positions were not computed.
  std::int64_t cached_tokens() const noexcept { return cached_tokens_; }
  /// Positions computed since construction.
  std::int64_t computed_positions() const noexcept { return computed_positions_; }
  PageCache& cache() noexcept { return cache_; }

  /// Tokens per step, at most the model's step_tokens(). A step takes fewer when the pool has no room for more.
  void set_chunk_tokens(std::int64_t chunk_tokens);

  /// Ends the sequence there is and begins one with `prompt`, from what the cache has of it: everything but the positions whose logits
  /// are wanted. Requires: prompt is not empty. Errors: as append.
  Expected<void, RunError> start(std::span<const TokenId> prompt, LogitRows rows, const LogitsVisitor& visit = {});

  /// Appends `tokens` to the sequence. Errors: kContextFull (nothing is computed then), kPoolFull, kKernel, kStopped (by a visitor);
  /// std::bad_alloc, after which the sequence has what was computed, and may be started anew.
  Expected<void, RunError> append(std::span<const TokenId> tokens, LogitRows rows, const LogitsVisitor& visit = {});

  /// Ends the sequence. Its tokens can still be found in the cache.
  void finish();

 private:
  struct Part {
    std::int64_t cached = 0;    ///< tokens that were there
    std::int64_t computed = 0;  ///< tokens after them
  };

  Expected<Part, RunError> step(std::span<const TokenId> tokens, LogitRows rows);
  PrefixQuery query_of(std::span<const TokenId> prompt, LogitRows rows) const;
  void begin_sequence(PageCache::Allocator::Transaction& transaction, const PrefixQuery& query);
  std::int64_t room_in_pool(std::int64_t first_pos) const;
  void plan(std::span<const TokenId> tokens, std::int64_t num_written, bool logits_of_all, bool logits_of_last);
  void plan_group(std::int64_t group, std::int64_t num_written);
  Expected<void, RunError> visit_logits(std::int64_t first_index, const LogitsVisitor& visit);

  LanguageModel& model_;
  PageCache cache_;
  SeqId seq_{};
  std::vector<TokenId> history_;  // committed tokens of the sequence
  BatchPlan plan_;
  std::int64_t chunk_tokens_;
  std::int64_t cached_tokens_ = 0;
  std::int64_t computed_positions_ = 0;
};

}  // namespace kvpage::engine
