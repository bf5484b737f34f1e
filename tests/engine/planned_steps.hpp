/// \file Steps planned by hand: new tokens of several sequences, their pages one after the other in the pool.
#pragma once

#include "engine/tiny_models.hpp"

#include <kvpage/sched/batch_plan.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace kvpage_test {

/// New tokens of one sequence.
struct PlannedRows {
  std::int64_t first_pos = 0;
  std::int64_t count = 1;
};

/// A step that computes `rows[s]` of sequence s and gives logits of every row. Sequence s has the same pages in every step.
inline kvpage::BatchPlan plan_step(const kvpage::engine::LanguageModel& model, std::span<const PlannedRows> rows) {
  const std::int64_t block_size = model.pool_shape().block_size;
  const std::int64_t blocks_per_table = kvpage::ceil_div(model.context_tokens(), block_size);
  const std::int64_t num_groups = model.cache_groups().num_groups();
  kvpage::BatchPlan plan;
  plan.clear(num_groups);
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const auto [first_pos, count] = rows[s];
    const auto ids = some_ids(static_cast<std::size_t>(first_pos + count), static_cast<std::uint32_t>(s + 1));
    plan.sequences.push_back({.q_begin = plan.num_tokens(), .q_count = count, .first_pos = first_pos});
    plan.kv_lens.push_back(first_pos + count);
    plan.tokens.insert(plan.tokens.end(), ids.begin() + first_pos, ids.end());
    for (std::int64_t position = first_pos; position < first_pos + count; ++position) {
      plan.logit_rows.push_back(std::ssize(plan.positions));
      plan.positions.push_back(position);
    }
    for (std::int64_t g = 0; g < num_groups; ++g) {
      kvpage::PlannedGroup& group = plan.groups[static_cast<std::size_t>(g)];
      const std::int64_t first_block = (static_cast<std::int64_t>(s) * num_groups + g) * blocks_per_table;
      const auto block_of = [&](std::int64_t i) { return kvpage::BlockId{static_cast<std::uint32_t>(first_block + i)}; };
      for (std::int64_t i = 0; i < kvpage::ceil_div(first_pos + count, block_size); ++i) group.block_ids.push_back(block_of(i));
      group.indptr.push_back(std::ssize(group.block_ids));
      for (std::int64_t position = first_pos; position < first_pos + count; ++position) {
        group.write_slots.push_back({block_of(position / block_size), static_cast<std::uint32_t>(position % block_size)});
      }
    }
  }
  REQUIRE(validate(plan, block_size));
  return plan;
}

/// A config whose pool holds `num_seqs` sequences of `context_tokens` in up to 8 cache groups, and all their logits at once.
inline kvpage::engine::ModelConfig batch_config(std::string kernels, std::int64_t num_seqs, std::int64_t context_tokens) {
  auto config = tiny_config(std::move(kernels), "f16", 2);
  config.pool_tokens = context_tokens;
  config.pool_blocks = num_seqs * kvpage::ceil_div(context_tokens, config.block_size) * 8;
  config.step_tokens = config.logit_rows = num_seqs * 16;
  return config;
}

/// Runs a step and returns its logits, all rows by one call. // [logit_rows * vocab_size]
inline std::span<const float> run_step(kvpage::engine::LanguageModel& model, const kvpage::BatchPlan& plan) {
  const kvpage::Status status = model.forward(plan);
  INFO(status.message() << ", value " << status.value() << ", limit " << status.limit());
  REQUIRE(status.ok());
  const auto logits = model.logits(0, std::ssize(plan.logit_rows));
  REQUIRE(logits);
  return *logits;
}

}  // namespace kvpage_test
