#include "engine/padded_batch.hpp"

#include <algorithm>
#include <utility>

namespace kvpage::engine {

Status PaddedBatch::pad(const BatchPlan& plan) {
  if (plan.num_tokens() == 0) return {};
  join(plan);
  std::int64_t left = missing_rows();
  while (left > 0) {
    const std::int64_t num_rows = std::min(left, step_tokens_);
    if (const Status status = run(plan, num_rows); !status.ok()) return status;
    padded_rows_ += num_rows, left -= num_rows;
  }
  return {};
}

/// Counts what the plan computes for each member. A plan without any member of the batch before it starts the next batch.
void PaddedBatch::join(const BatchPlan& plan) {
  const auto key_of = [](const PlannedOwner& owner) { return MemberKey{owner.request.value, owner.child}; };
  ++num_plans_;
  const bool goes_on = std::any_of(plan.owners.begin(), plan.owners.end(), [&](const auto& o) { return members_.contains(key_of(o)); });
  if (!goes_on) members_.clear();
  for (std::size_t s = 0; s < plan.owners.size(); ++s) {
    const QuerySpan& span = plan.sequences[s];
    Member& member = members_[key_of(plan.owners[s])];
    member.newest_plan = num_plans_;
    const bool samples = std::binary_search(plan.logit_rows.begin(), plan.logit_rows.end(), span.q_begin + span.q_count - 1);
    if (member.prompt_tokens > 0) {
      ++member.decoded;
    } else if (samples) {
      member.prompt_tokens = plan.kv_lens[s];
    }
  }
}

/// Rows that members lack to be as long as the longest: prompts once they are computed, answers once they have ended.
std::int64_t PaddedBatch::missing_rows() {
  std::int64_t longest_prompt = 0, longest_answer = 0, missing = 0;
  for (const auto& [key, member] : members_) {
    longest_prompt = std::max(longest_prompt, member.prompt_tokens);
    longest_answer = std::max(longest_answer, member.decoded);
  }
  for (auto& [key, member] : members_) {
    if (member.prompt_tokens == 0) continue;
    missing += longest_prompt - std::exchange(member.prompt_tokens, longest_prompt);
    if (member.newest_plan == num_plans_) continue;
    missing += longest_answer - std::exchange(member.decoded, longest_answer);
  }
  return missing;
}

/// Runs a step of `num_rows` rows: the sequences of the plan from the first one on, as often as it takes.
Status PaddedBatch::run(const BatchPlan& plan, std::int64_t num_rows) {
  pads_.clear(static_cast<std::int64_t>(plan.groups.size()));
  pads_.step = plan.step;
  for (std::size_t s = 0; pads_.num_tokens() < num_rows; s = (s + 1) % plan.sequences.size()) copy_sequence(plan, s, num_rows);
  return forward_(pads_);
}

void PaddedBatch::copy_sequence(const BatchPlan& plan, std::size_t s, std::int64_t num_rows) {
  const QuerySpan& span = plan.sequences[s];
  const std::int64_t begin = pads_.num_tokens();
  const std::int64_t count = std::min(span.q_count, num_rows - begin);
  pads_.sequences.push_back({.q_begin = begin, .q_count = count, .first_pos = span.first_pos});
  pads_.kv_lens.push_back(span.first_pos + count);
  for (std::int64_t row = span.q_begin; row < span.q_begin + count; ++row) {
    pads_.tokens.push_back(plan.tokens[static_cast<std::size_t>(row)]);
    pads_.positions.push_back(plan.positions[static_cast<std::size_t>(row)]);
  }
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const PlannedGroup& from = plan.groups[g];
    PlannedGroup& to = pads_.groups[g];
    to.block_ids.insert(to.block_ids.end(), from.block_ids.begin() + from.indptr[s], from.block_ids.begin() + from.indptr[s + 1]);
    to.indptr.push_back(static_cast<std::int64_t>(to.block_ids.size()));
    to.write_slots.resize(to.write_slots.size() + static_cast<std::size_t>(count), kNoSlot);
  }
}

}  // namespace kvpage::engine
