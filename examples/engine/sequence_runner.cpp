#include "engine/sequence_runner.hpp"

#include <algorithm>
#include <utility>

namespace kvpage::engine {
namespace {

BlockAllocatorConfig allocator_config(const KVPoolShape& shape) {
  return {.num_blocks = shape.num_blocks, .block_size = shape.block_size, .max_seqs = 1};
}

RunError kernel_error(const Status& status) {
  return {RunError::Kind::kKernel, std::string(status.message()) + " (value " + std::to_string(status.value()) + ", limit " +
                                       std::to_string(status.limit()) + ")"};
}

}  // namespace

SequenceRunner::SequenceRunner(LanguageModel& model)
    : model_(model),
      allocator_memory_(Allocator::required_bytes(allocator_config(model.pool_shape()))),
      allocator_(allocator_config(model.pool_shape()), allocator_memory_),
      chunk_tokens_(model.step_tokens()) {
  auto transaction = allocator_.begin().value();
  seq_ = transaction.create().value();
  transaction.commit().value();
}

void SequenceRunner::set_chunk_tokens(std::int64_t chunk_tokens) {
  if (chunk_tokens < 1 || chunk_tokens > model_.step_tokens()) {
    throw_config_error("chunk_tokens must lie in [1, step_tokens]", chunk_tokens, model_.step_tokens(), "tokens");
  }
  chunk_tokens_ = chunk_tokens;
}

std::int64_t SequenceRunner::room_tokens() const noexcept {
  return model_.context_tokens() - num_tokens();
}

void SequenceRunner::truncate(std::int64_t num_tokens) {
  auto transaction = allocator_.begin().value();
  transaction.truncate(seq_, num_tokens).value();
  transaction.commit().value();
}

Expected<void, RunError> SequenceRunner::append(std::span<const TokenId> tokens, LogitRows rows, const LogitsVisitor& visit) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count > room_tokens()) {
    return Unexpected{RunError{RunError::Kind::kContextFull, "the context is full: " + std::to_string(count) + " more tokens were asked, " +
                                                                 std::to_string(room_tokens()) +
                                                                 " fit; use a larger --ctx or a shorter text"}};
  }
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t step_count = std::min(chunk_tokens_, count - done);
    const bool is_last = done + step_count == count;
    const auto part = tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(step_count));
    if (auto ran = step(part, rows == LogitRows::kAll, rows == LogitRows::kLast && is_last); !ran) return ran;
    if (step_visitor_ && !step_visitor_(done + step_count)) return Unexpected{RunError{RunError::Kind::kStopped, "stopped"}};
    auto go_on = visit_logits(done, visit);
    if (!go_on) return Unexpected{std::move(go_on.error())};
    if (!*go_on) return Unexpected{RunError{RunError::Kind::kStopped, "stopped"}};
    done += step_count;
  }
  return {};
}

/// One step: room is reserved, the plan sealed, the model run; then the tokens count, or, if it failed, never were there.
Expected<void, RunError> SequenceRunner::step(std::span<const TokenId> tokens, bool logits_of_all, bool logits_of_last) {
  auto transaction = allocator_.begin().value();
  const auto grown = transaction.grow(seq_, num_tokens() + static_cast<std::int64_t>(tokens.size()));
  if (!grown) {
    return Unexpected{RunError{RunError::Kind::kContextFull, "the KV pool is full: " + std::to_string(grown.error().need) +
                                                                 " blocks needed, " + std::to_string(grown.error().available) + " free"}};
  }
  const StepId sealed = transaction.seal().value();
  plan(tokens, logits_of_all, logits_of_last);
  KVPAGE_ASSERT_SLOW(validate(plan_, model_.pool_shape().block_size).has_value(), "a plan obeys every rule");
  if (const Status status = model_.forward(plan_); !status.ok()) {
    allocator_.abort(sealed).value();
    return Unexpected{kernel_error(status)};
  }
  allocator_.commit(sealed).value();
  computed_positions_ += plan_.num_tokens();
  return {};
}

void SequenceRunner::plan(std::span<const TokenId> tokens, bool logits_of_all, bool logits_of_last) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const BlockTable table = allocator_.table(seq_);
  const std::int64_t first_pos = table.num_tokens - count;
  const std::int64_t block_size = model_.pool_shape().block_size;
  ++plan_.step;
  plan_.clear();
  plan_.sequences.push_back({.q_begin = 0, .q_count = count, .first_pos = first_pos});
  plan_.tokens.assign(tokens.begin(), tokens.end());
  plan_.kv_lens.push_back(table.num_tokens);
  PlannedGroup& group = plan_.groups[0];
  group.block_ids.assign(table.blocks.begin(), table.blocks.end());
  group.indptr.push_back(static_cast<std::int64_t>(table.blocks.size()));
  for (std::int64_t position = first_pos; position < table.num_tokens; ++position) {
    const BlockId block = table.blocks[static_cast<std::size_t>(position / block_size)];
    plan_.positions.push_back(position);
    group.write_slots.push_back({block, static_cast<std::uint32_t>(position % block_size)});
  }
  const std::int64_t first_row = logits_of_all ? 0 : count - 1;
  for (std::int64_t row = first_row; (logits_of_all || logits_of_last) && row < count; ++row) plan_.logit_rows.push_back(row);
}

Expected<bool, RunError> SequenceRunner::visit_logits(std::int64_t first_index, const LogitsVisitor& visit) {
  const auto num_rows = static_cast<std::int64_t>(plan_.logit_rows.size());
  const auto vocab_size = static_cast<std::size_t>(model_.spec().vocab_size);
  for (std::int64_t first = 0; first < num_rows; first += kMaxLogitRows) {
    const std::int64_t count = std::min(kMaxLogitRows, num_rows - first);
    const auto logits = model_.logits(first, count);
    if (!logits) return Unexpected{kernel_error(logits.error())};
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = first_index + plan_.logit_rows[static_cast<std::size_t>(first + i)];
      if (visit && !visit(index, logits->subspan(static_cast<std::size_t>(i) * vocab_size, vocab_size))) return false;
    }
  }
  return true;
}

}  // namespace kvpage::engine
