/// Every rule of validate(BatchPlan): a good plan passes, and one change that breaks the rule is named.
#include <kvpage/sched/batch_plan.hpp>

#include "support/catch.hpp"

#include <string>

namespace {

using kvpage::BatchPlan;
using kvpage::BlockId;
using kvpage::KVSlot;

constexpr std::int64_t kBlockSize = 4;

/// Sequence 0: three rows at positions 3..5 in blocks 7, 2; sequence 1: one row at position 0 in block 5.
BatchPlan good_plan() {
  BatchPlan plan;
  plan.clear();
  plan.sequences = {{.q_begin = 0, .q_count = 3, .first_pos = 3}, {.q_begin = 3, .q_count = 1, .first_pos = 0}};
  plan.tokens = {10, 11, 12, 13};
  plan.positions = {3, 4, 5, 0};
  plan.groups[0].write_slots = {{BlockId{7}, 3}, {BlockId{2}, 0}, {BlockId{2}, 1}, {BlockId{5}, 0}};
  plan.kv_lens = {6, 1};
  plan.groups[0].indptr = {0, 2, 3};
  plan.groups[0].block_ids = {BlockId{7}, BlockId{2}, BlockId{5}};
  plan.logit_rows = {2, 3};
  return plan;
}

/// The rule that a changed plan breaks, or "".
template <class Change>
std::string broken_rule(Change change) {
  BatchPlan plan = good_plan();
  change(plan);
  const auto result = kvpage::validate(plan, kBlockSize);
  return result.has_value() ? "" : result.error().rule;
}

}  // namespace

TEST_CASE("sched.batch_plan.a_good_plan_is_valid", "[sched]") {
  CHECK(broken_rule([](BatchPlan&) {}).empty());
  CHECK(broken_rule([](BatchPlan& p) { p.groups[0].write_slots[1] = kvpage::kNoSlot; }).empty());  // a query-only row
  BatchPlan empty;
  empty.clear();
  CHECK(kvpage::validate(empty, kBlockSize).has_value());
}

TEST_CASE("sched.batch_plan.transfers_meet_neither_each_other_nor_the_rows", "[sched]") {
  CHECK(broken_rule([](BatchPlan& p) {
          p.demotions = {{BlockId{7}, 0}, {BlockId{2}, 1}};  // what is overwritten is saved first
          p.promotions = {{BlockId{3}, 2}, {BlockId{4}, 2}};  // one page twice
        }).empty());
  CHECK(broken_rule([](BatchPlan& p) { p.demotions = {{BlockId{7}, 1}, {BlockId{2}, 1}}; }) == "no two pages are saved in one slot");
  CHECK(broken_rule([](BatchPlan& p) {
          p.demotions = {{BlockId{7}, 1}};
          p.promotions = {{BlockId{3}, 1}};
        }) == "a slot is not written and read in one step");
  CHECK(broken_rule([](BatchPlan& p) { p.promotions = {{BlockId{3}, 1}, {BlockId{3}, 2}}; }) == "no two pages are loaded into one block");
  const std::string used = "a block that is loaded is used by nothing else in the step";
  CHECK(broken_rule([](BatchPlan& p) { p.promotions = {{BlockId{2}, 1}}; }) == used);
  CHECK(broken_rule([](BatchPlan& p) { p.promotions = {{kvpage::kNoBlock, 1}}; }) == used);
  for (const kvpage::CopyOp copy : {kvpage::CopyOp{BlockId{3}, BlockId{5}, 2}, kvpage::CopyOp{BlockId{7}, BlockId{3}, 2}}) {
    CHECK(broken_rule([&](BatchPlan& p) { p.promotions = {{BlockId{3}, 1}}, p.copies = {copy}; }) == used);
  }
  BatchPlan load;
  load.clear();
  CHECK(load.is_empty());
  load.promotions = {{BlockId{3}, 1}};
  CHECK_FALSE(load.is_empty());
}

TEST_CASE("sched.batch_plan.every_broken_rule_is_named", "[sched]") {
  CHECK(broken_rule([](BatchPlan& p) { p.positions.pop_back(); }) == "every token has a position and a slot");
  CHECK(broken_rule([](BatchPlan& p) { p.kv_lens.pop_back(); }) == "every sequence has a length and a block table");
  CHECK(broken_rule([](BatchPlan& p) { p.sequences[1].q_count = 0; }) == "a planned sequence has at least one token");
  CHECK(broken_rule([](BatchPlan& p) { p.sequences[1].q_begin = 2; }) == "the rows of the sequences follow each other without gap");
  CHECK(broken_rule([](BatchPlan& p) { p.sequences[1].q_count = 2; }) == "the rows of a sequence lie inside the step");
  CHECK(broken_rule([](BatchPlan& p) { p.kv_lens[0] = 7; }) == "kv_len = first_pos + q_count");
  CHECK(broken_rule([](BatchPlan& p) { p.groups[0].indptr[1] = 4; }) == "block tables follow each other");
  CHECK(broken_rule([](BatchPlan& p) { p.groups[0].indptr[1] = 1; }) == "a block table covers kv_len");
  CHECK(broken_rule([](BatchPlan& p) { p.positions[1] = 9; }) == "positions of a sequence are consecutive");
  CHECK(broken_rule([](BatchPlan& p) { p.groups[0].write_slots[0].offset = 2; }) == "a write slot is the table's place of its position");
  CHECK(broken_rule([](BatchPlan& p) {
          p.sequences.pop_back(), p.kv_lens.pop_back();
          p.groups[0].indptr.pop_back(), p.groups[0].block_ids.pop_back();
        }) == "every token belongs to a sequence");
  CHECK(broken_rule([](BatchPlan& p) { p.groups.clear(); }) == "a plan has at least one cache group");
  CHECK(broken_rule([](BatchPlan& p) {
          p.groups.push_back(p.groups[0]);  // the second group's tokens would overwrite the first one's
        }) == "no two tokens are written to one slot");
  CHECK(broken_rule([](BatchPlan& p) {
          p.groups[0].block_ids[2] = BlockId{2};
          p.groups[0].write_slots[3] = {BlockId{2}, 0};
        }) == "no two tokens are written to one slot");
  CHECK(broken_rule([](BatchPlan& p) { p.samples = {{.logit_index = 2}}; }) == "a sample is drawn from a row that gives logits");
  const std::string order = "samples go by row, then by answer";
  CHECK(broken_rule([](BatchPlan& p) { p.samples = {{.logit_index = 1}, {.logit_index = 0}}; }) == order);
  CHECK(broken_rule([](BatchPlan& p) { p.samples = {{.logit_index = 0, .child = 1}, {.logit_index = 0, .child = 0}}; }) == order);
  CHECK(broken_rule([](BatchPlan& p) { p.samples = {{.logit_index = 1, .child = 2}, {.logit_index = 1, .child = 2}}; }) == order);
  const auto owned = [](BatchPlan& p) { p.owners = {{.request = kvpage::RequestId{8}}, {.request = kvpage::RequestId{9}}}; };
  const auto samples = [](BatchPlan& p, std::uint64_t first, std::uint64_t second) {
    const kvpage::RequestId id{first};
    p.samples = {{.logit_index = 0, .request = id}, {.logit_index = 0, .request = id, .child = 1},
                 {.logit_index = 1, .request = kvpage::RequestId{second}}};
  };
  CHECK(broken_rule([&](BatchPlan& p) { owned(p), samples(p, 8, 9); }).empty());
  CHECK(broken_rule([&](BatchPlan& p) { samples(p, 9, 8); }).empty());  // nobody says whose rows they are
  const std::string last = "a sample is drawn from the last row of its request";
  CHECK(broken_rule([&](BatchPlan& p) { owned(p), samples(p, 8, 8); }) == last);
  CHECK(broken_rule([&](BatchPlan& p) { owned(p), samples(p, 8, 9), p.logit_rows[0] = 1; }) == last);
  CHECK(broken_rule([](BatchPlan& p) { p.logit_rows = {3, 2}; }) == "logit rows ascend inside the step");
  CHECK(broken_rule([](BatchPlan& p) { p.logit_rows = {4}; }) == "logit rows ascend inside the step");
}
