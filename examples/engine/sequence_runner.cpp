#include "engine/sequence_runner.hpp"

#include <kvpage/kv/plan_bytes.hpp>

#include <algorithm>
#include <utility>

namespace kvpage::engine {
namespace {

RunError kernel_error(const Status& status) {
  return {RunError::Kind::kKernel, std::string(status.message()) + " (value " + std::to_string(status.value()) + ", limit " +
                                       std::to_string(status.limit()) + ")"};
}

RunError stopped() { return {RunError::Kind::kStopped, "stopped"}; }

RunError pool_full(const CapacitySnapshot& capacity) {
  const std::string blocks = std::to_string(capacity.used) + " of " + std::to_string(capacity.num_blocks) + " blocks";
  return {RunError::Kind::kPoolFull,
          "the KV pool is full: " + blocks + " are used, and the next token needs more; use a larger pool or a shorter text"};
}

/// A sealed step that does not come to its end, whatever the reason, was never there.
struct AbortUnlessRun {
  PageCache::Allocator& allocator;
  StepId id;
  bool has_run = false;

  ~AbortUnlessRun() {
    if (!has_run) allocator.abort(id).value();
  }
};

}  // namespace

SequenceRunner::SequenceRunner(LanguageModel& model, bool share_prefixes)
    : model_(model), cache_(model, {.share_prefixes = share_prefixes}), chunk_tokens_(model.step_tokens()) {}

void SequenceRunner::set_chunk_tokens(std::int64_t chunk_tokens) {
  if (chunk_tokens < 1 || chunk_tokens > model_.step_tokens()) {
    throw_config_error("chunk_tokens must lie in [1, step_tokens]", chunk_tokens, model_.step_tokens(), "tokens");
  }
  chunk_tokens_ = chunk_tokens;
}

void SequenceRunner::finish() {
  if (cache_.allocator().alive(seq_)) cache_.settle(seq_, history_, true);
  history_.clear();
}

Expected<void, RunError> SequenceRunner::start(std::span<const TokenId> prompt, LogitRows rows, const LogitsVisitor& visit) {
  finish();
  cached_tokens_ = 0;
  return append(prompt, rows, visit);
}

Expected<void, RunError> SequenceRunner::append(std::span<const TokenId> tokens, LogitRows rows, const LogitsVisitor& visit) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count > room_tokens()) {
    return Unexpected{RunError{RunError::Kind::kContextFull, "the context is full: " + std::to_string(count) + " more tokens were asked, " +
                                                                 std::to_string(room_tokens()) +
                                                                 " fit; use a larger --ctx or a shorter text"}};
  }
  for (std::int64_t done = 0; done < count;) {
    const auto part = step(tokens.subspan(static_cast<std::size_t>(done)), rows);
    if (!part) return Unexpected{part.error()};
    const std::int64_t first_computed = done + part->cached;
    done = first_computed + part->computed;
    if (auto visited = visit_logits(first_computed, visit); !visited) return visited;
  }
  return {};
}

/// One step with as many tokens as fit: room is reserved, the plan sealed, the model run; then they count, or, if it failed, never were
/// there. The first step of a sequence starts from what the cache has.
Expected<SequenceRunner::Part, RunError> SequenceRunner::step(std::span<const TokenId> tokens, LogitRows rows) {
  PageCache::Allocator& allocator = cache_.allocator();
  plan_.clear(allocator.config().num_groups);
  const std::int64_t first_token = num_tokens();
  const PrefixQuery query = query_of(tokens, rows);
  auto transaction = allocator.begin().value();
  if (!allocator.alive(seq_)) begin_sequence(transaction, query);
  const std::int64_t num_written = allocator.num_tokens(seq_);
  const std::int64_t last_token = first_token + std::ssize(tokens);
  Part part{.cached = std::min(num_written, last_token - 1) - first_token};  // one computed token gives the logits
  const std::int64_t first_pos = first_token + part.cached;
  part.computed = std::min({chunk_tokens_, last_token - first_pos, room_in_pool(first_pos)});
  if (part.computed < 1) return Unexpected{pool_full(allocator.capacity())};
  transaction.grow(seq_, first_pos + part.computed).value();
  const auto computed = tokens.subspan(static_cast<std::size_t>(part.cached), static_cast<std::size_t>(part.computed));
  if (std::ssize(history_) + std::ssize(tokens) > static_cast<std::ptrdiff_t>(history_.capacity())) {
    history_.reserve(2 * history_.size() + tokens.size());  // before it is sealed: a step that has run counts
  }
  AbortUnlessRun sealed{allocator, transaction.seal().value()};
  plan(computed, num_written, rows == LogitRows::kAll, rows == LogitRows::kLast && first_pos + part.computed == last_token);
  plan_.copies.assign(allocator.copies(sealed.id).begin(), allocator.copies(sealed.id).end());
  KVPAGE_ASSERT_SLOW(validate(plan_, model_.pool_shape().block_size).has_value(), "a plan obeys every rule");
  cache_.begin_step(plan_);
  if (const Status status = model_.forward(plan_); !status.ok()) return Unexpected{kernel_error(status)};
  sealed.has_run = true;
  allocator.commit(sealed.id).value();
  computed_positions_ += part.computed;
  if (first_token == 0) cached_tokens_ = part.cached;
  history_.insert(history_.end(), tokens.begin(), tokens.begin() + part.cached + part.computed);
  cache_.settle(seq_, history_, false);
  return part;
}

PrefixQuery SequenceRunner::query_of(std::span<const TokenId> prompt, LogitRows rows) const {
  if (rows == LogitRows::kAll) return cache_.query(prompt, 0);
  // Behind a window, the last token's own query looks one position further back than a hit of the whole prompt promises.
  return cache_.query(prompt, std::ssize(prompt) - (model_.cache_groups().has_window() ? 1 : 0));
}

/// Creates seq_, with what the pool has of the prompt.
void SequenceRunner::begin_sequence(PageCache::Allocator::Transaction& transaction, const PrefixQuery& query) {
  PageCache::Allocator& allocator = cache_.allocator();
  seq_ = transaction.create(query.name_space).value();
  const PrefixHit hit = allocator.match(query);
  const Savepoint before = transaction.mark();
  transaction.share(seq_, hit).value();
  if (room_in_pool(std::min(allocator.num_tokens(seq_), std::ssize(query.tokens) - 1)) >= 1) return;
  // The source of a copy is held beside its target: a pool without a block to spare does without the copy.
  transaction.rollback_to(before);
  transaction.share(seq_, hit.without_partial()).value();
}

/// Positions from `first_pos` on that have a place, or would get one from the blocks that are available.
std::int64_t SequenceRunner::room_in_pool(std::int64_t first_pos) const {
  const auto& allocator = cache_.allocator();
  const std::int64_t block_size = allocator.config().block_size;
  const std::int64_t entries = ceil_div(allocator.num_tokens(seq_), block_size);
  const std::int64_t more = allocator.capacity().available() / allocator.config().num_groups;
  return std::min(entries + more, allocator.config().max_blocks_per_seq) * block_size - first_pos;
}

void SequenceRunner::plan(std::span<const TokenId> tokens, std::int64_t num_written, bool logits_of_all, bool logits_of_last) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t end = cache_.allocator().num_tokens(seq_);
  ++plan_.step;
  plan_.sequences.push_back({.q_begin = 0, .q_count = count, .first_pos = end - count});
  plan_.tokens.assign(tokens.begin(), tokens.end());
  plan_.kv_lens.push_back(end);
  for (std::int64_t position = end - count; position < end; ++position) plan_.positions.push_back(position);
  for (std::int64_t g = 0; g < cache_.allocator().config().num_groups; ++g) plan_group(g, num_written);
  const std::int64_t first_row = logits_of_all ? 0 : count - 1;
  for (std::int64_t row = first_row; (logits_of_all || logits_of_last) && row < count; ++row) plan_.logit_rows.push_back(row);
}

/// Tokens before `num_written` are in the cache already: their rows only ask.
void SequenceRunner::plan_group(std::int64_t group, std::int64_t num_written) {
  const BlockTable table = cache_.allocator().table(seq_, group);
  const std::int64_t block_size = cache_.allocator().config().block_size;
  PlannedGroup& planned = plan_.groups[static_cast<std::size_t>(group)];
  planned.block_ids.assign(table.blocks.begin(), table.blocks.end());
  planned.indptr.push_back(std::ssize(table.blocks));
  for (const std::int64_t position : plan_.positions) {
    const BlockId block = table.blocks[static_cast<std::size_t>(position / block_size)];
    const KVSlot place{block, static_cast<std::uint32_t>(position % block_size)};
    planned.write_slots.push_back(position < num_written ? kNoSlot : place);
  }
}

Expected<void, RunError> SequenceRunner::visit_logits(std::int64_t first_index, const LogitsVisitor& visit) {
  const auto num_rows = static_cast<std::int64_t>(plan_.logit_rows.size());
  const auto vocab_size = static_cast<std::size_t>(model_.spec().vocab_size);
  for (std::int64_t first = 0; first < num_rows; first += model_.max_logit_rows()) {
    const std::int64_t count = std::min(model_.max_logit_rows(), num_rows - first);
    const auto logits = model_.logits(first, count);
    if (!logits) return Unexpected{kernel_error(logits.error())};
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = first_index + plan_.logit_rows[static_cast<std::size_t>(first + i)];
      if (visit && !visit(index, logits->subspan(static_cast<std::size_t>(i) * vocab_size, vocab_size))) return Unexpected{stopped()};
    }
  }
  return {};
}

}  // namespace kvpage::engine
