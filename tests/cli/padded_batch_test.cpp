/// \file PaddedBatch: a batch costs its number of answers times the longest prompt and answer, and padding writes nothing.
#include "engine/padded_batch.hpp"
#include "support/catch.hpp"

#include <algorithm>

namespace kvpage_test {
namespace {

using kvpage::BatchPlan;
using kvpage::BlockId;
using kvpage::Status;

/// A sequence of a static batch: its prompt is computed in chunks of `chunk`, its answer row by row.
struct Member {
  std::uint64_t id;
  std::int64_t prompt;
  std::int64_t answer;  // tokens
  std::int64_t computed = 0;

  std::int64_t end() const { return prompt + answer - 1; }  // the last token drawn is never computed
};

constexpr std::int64_t kBlockSize = 8;

/// The next step of all that have not ended.
BatchPlan plan_of(std::vector<Member>& members, std::int64_t chunk) {
  BatchPlan plan;
  plan.clear();
  for (Member& m : members) {
    const std::int64_t rows = std::min(m.computed < m.prompt ? std::min(chunk, m.prompt - m.computed) : 1, m.end() - m.computed);
    if (rows == 0) continue;
    plan.owners.push_back({.request = kvpage::RequestId{m.id}, .child = 0, .seq = {}, .name_space = {}});
    plan.sequences.push_back({.q_begin = plan.num_tokens(), .q_count = rows, .first_pos = m.computed});
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t position = m.computed + i;
      const BlockId block{static_cast<std::uint32_t>(m.id * 100 + static_cast<std::uint64_t>(position / kBlockSize))};
      plan.tokens.push_back(static_cast<kvpage::TokenId>(position));
      plan.positions.push_back(position);
      plan.groups[0].write_slots.push_back({block, static_cast<std::uint32_t>(position % kBlockSize)});
    }
    m.computed += rows;
    plan.kv_lens.push_back(m.computed);
    for (std::int64_t b = 0; b * kBlockSize < m.computed; ++b) {
      plan.groups[0].block_ids.push_back(BlockId{static_cast<std::uint32_t>(m.id * 100) + static_cast<std::uint32_t>(b)});
    }
    plan.groups[0].indptr.push_back(std::ssize(plan.groups[0].block_ids));
    if (m.computed >= m.prompt) plan.logit_rows.push_back(plan.num_tokens() - 1);
  }
  return plan;
}

/// Rows of padding and of the batch itself.
struct Rows {
  std::int64_t padding = 0, own = 0;
};

Rows run_batch(kvpage::engine::PaddedBatch& padding, std::vector<Member> members, std::int64_t chunk) {
  Rows rows;
  const std::int64_t before = padding.padded_rows();
  for (BatchPlan plan = plan_of(members, chunk); plan.num_tokens() > 0; plan = plan_of(members, chunk)) {
    REQUIRE(validate(plan, kBlockSize));
    REQUIRE(padding.pad(plan).ok());
    rows.own += plan.num_tokens();
  }
  rows.padding = padding.padded_rows() - before;
  return rows;
}

}  // namespace

TEST_CASE("cli.padded.a_batch_costs_its_longest_prompt_and_answer", "[cli]") {
  std::int64_t forwarded = 0;
  kvpage::engine::PaddedBatch padding(
      [&](const BatchPlan& pads) -> Status {
        REQUIRE(validate(pads, kBlockSize));
        CHECK(pads.num_tokens() <= 10);
        CHECK((pads.logit_rows.empty() && pads.samples.empty() && pads.copies.empty()));
        for (const auto slot : pads.groups[0].write_slots) CHECK(slot == kvpage::kNoSlot);
        forwarded += pads.num_tokens();
        return {};
      },
      10);
  std::uint64_t id = 1;
  for (const std::int64_t chunk : {1, 7, 16, 1000}) {
    INFO("chunks of " << chunk);
    const Rows rows = run_batch(padding, {{id, 20, 4}, {id + 1, 50, 9}, {id + 2, 35, 6}, {id + 3, 7, 1}}, chunk);
    CHECK(rows.padding + rows.own == 4 * (50 + 9 - 1));
    id += 4;
  }
  CHECK(run_batch(padding, {{id, 3, 30}, {id + 1, 9, 2}}, 16).padding == 2 * (9 + 30 - 1) - (3 + 29) - (9 + 1));
  CHECK(run_batch(padding, {{id + 2, 12, 5}, {id + 3, 12, 5}}, 16).padding == 0);
  CHECK(forwarded == padding.padded_rows());
}

TEST_CASE("cli.padded.a_failure_of_the_model_is_handed_on", "[cli]") {
  kvpage::engine::PaddedBatch padding([](const BatchPlan&) { return Status{kvpage::StatusCode::kUnsupported, "no"}; }, 10);
  std::vector<Member> members{{1, 20, 4}, {2, 5, 4}};
  const BatchPlan plan = plan_of(members, 100);
  CHECK(padding.pad(plan).code() == kvpage::StatusCode::kUnsupported);
  CHECK(padding.padded_rows() == 0);
}

}  // namespace kvpage_test
