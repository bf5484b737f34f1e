/// \file Shared pages are read once for all sequences of a group, and that changes no bit.
#include "attention_problem.hpp"

#include "support/catch.hpp"

#include <kvpage/exec/isa.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace kvpage_test;

namespace {

/// `num_members` sequences with the same first `shared` positions and own ones behind: decode rows, and chunks of three rows.
AttentionProblem shared_prompt(std::int64_t num_members, std::int64_t shared, std::int64_t group, unsigned seed) {
  AttentionProblem problem;
  problem.num_kv_heads = 2;
  problem.num_q_heads = 2 * group;
  problem.head_dim = 32;
  problem.scale = 0.25f;
  for (std::int64_t i = 0; i < num_members; ++i) {
    const std::int64_t kv_len = shared + 3 + i * 97 % 300;
    const std::int64_t q_count = i % 4 == 2 ? 3 : 1;
    problem.seqs.push_back({kv_len, q_count, kv_len - q_count, i == 0 ? -1 : 0, shared});
  }
  fill_random(problem, seed);
  return problem;
}

/// What sharing pages saved. Requires the bits of separate pages.
std::int64_t saved_tokens(const Storage& kv, const AttentionProblem& problem, RunOptions options = {}) {
  std::int64_t saved = -1;
  options.cascade_tokens = &saved;
  const AttentionResult separate = kv.run(problem, options);
  CHECK(saved == 0);
  options.share_pages = true;
  CHECK(kv.run(problem, options) == separate);
  return saved;
}

}  // namespace

TEST_CASE("paged_attention.cascade.every_format_keeps_its_bits", "[paged_attention]") {
  for (const std::int64_t group : {1, 3}) {
    AttentionProblem problem = shared_prompt(5, 530, group, 1);
    problem.softcap = 20.0f;
    problem.seqs.push_back({300, 1, 299});           // a stranger
    problem.seqs.push_back({600, 60, 540, 0, 530});  // a prefill behind the same prefix: its own tiles
    fill_random(problem, 2);
    for (const Storage& kv : storages()) {
      // Integer dots of three heads are bound by arithmetic, unless their pages have to be copied.
      const bool gains = group == 1 || kv.format.rfind("int", 0) != 0 || kv.layout != "key-transposed";
      for (const int num_threads : {1, 2}) {
        INFO(kv.format << " " << kv.layout << ", workers " << num_threads << ", query heads per kv head " << group);
        CHECK(saved_tokens(kv, problem, {.num_threads = num_threads, .permutation = 3}) == (gains ? 4 * 512 : 0));
      }
    }
  }
}

TEST_CASE("paged_attention.cascade.any_members_lengths_and_groups_of_heads_keep_their_bits", "[paged_attention]") {
  for (const std::int64_t group : {1, 3, 7}) {
    for (std::int64_t num_members = 2; num_members <= 9; ++num_members) {
      const std::int64_t shared = 256 * (1 + num_members % 4);
      const AttentionProblem problem = shared_prompt(num_members, shared, group, static_cast<unsigned>(num_members));
      INFO("members " << num_members << ", shared " << shared << ", query heads per kv head " << group);
      std::int64_t num_tokens = 0;
      for (const SeqSpec& seq : problem.seqs) num_tokens += seq.q_count;
      const std::int64_t num_tiles = (num_tokens * group + 47) / 48;
      for (const char* format : {"f16", "int8"}) {
        const RunOptions options{.block_size = 32, .num_threads = 1 + static_cast<int>(group) / 3};
        const std::int64_t saved = saved_tokens(storage(format, "token-major"), problem, options);
        CHECK(saved >= shared * std::max<std::int64_t>(1, num_members - 2 * num_tiles));
        if (num_tiles == 1) CHECK(saved == shared * (num_members - 1));
      }
    }
  }
}

TEST_CASE("paged_attention.cascade.every_instruction_set_keeps_its_bits", "[paged_attention]") {
  const AttentionProblem problem = shared_prompt(4, 512, 1, 5);
  const kvpage::CpuFeatures features = kvpage::detect_cpu_features();
  for (const kvpage::Isa isa : kvpage::kAllIsas) {
    if (kvpage::missing_feature(isa, features) != nullptr) continue;
    for (const char* format : {"f32", "bf16", "int4-k4"}) {
      INFO(format << " on " << kvpage::isa_name(isa));
      CHECK(saved_tokens(storage(format), problem, {.isa = isa}) == 3 * 512);
    }
  }
}

TEST_CASE("paged_attention.cascade.windows_that_cut_the_prefix_share_nothing", "[paged_attention]") {
  AttentionProblem problem = shared_prompt(4, 512, 3, 6);
  for (const std::int64_t window : {1, 300, 514, 806, 2000}) {
    problem.window = window;
    INFO("window " << window);
    const std::int64_t saved = saved_tokens(storage("f16"), problem, {.num_threads = 2});
    if (window >= 806) {  // the longest member's length
      CHECK(saved == 3 * 512);
    } else {
      CHECK(saved < 3 * 512);
    }
    if (window <= 514) CHECK(saved == 0);
  }
}

TEST_CASE("paged_attention.cascade.less_than_a_split_is_not_shared", "[paged_attention]") {
  CHECK(saved_tokens(storage("f16"), shared_prompt(4, 255, 3, 7)) == 0);
  CHECK(saved_tokens(storage("f16"), shared_prompt(4, 256, 3, 7)) == 3 * 256);
  CHECK(saved_tokens(storage("f16"), shared_prompt(4, 256, 3, 7), {.block_size = 24}) == 0);  // 240 positions in whole pages
}

TEST_CASE("paged_attention.cascade.groups_are_found_in_any_order_of_the_batch", "[paged_attention]") {
  AttentionProblem problem = shared_prompt(2, 256, 3, 8);  // two prompts that differ, their members in turn
  problem.seqs = {{900, 1, 899}, {600, 1, 599}};
  for (std::int64_t i = 0; i < 6; ++i) problem.seqs.push_back({890 - 4 * i, 1, 889 - 4 * i, i % 2, i % 2 == 0 ? 768 : 512});
  for (SeqSpec& seq : problem.seqs) {
    if (seq.prefix_of == 1) seq.kv_len -= 300, seq.first_pos -= 300;
  }
  fill_random(problem, 9);
  for (const int num_threads : {1, 2, 3}) {
    CHECK(saved_tokens(storage("f32"), problem, {.num_threads = num_threads, .permutation = 4}) == 3 * 768 + 3 * 512);
  }
}

TEST_CASE("paged_attention.cascade.a_member_that_shares_little_does_not_shorten_a_group", "[paged_attention]") {
  AttentionProblem problem = shared_prompt(3, 1024, 3, 10);  // 2 * 1024 saved; a fourth at 256 would leave 3 * 256
  problem.seqs.push_back({400, 1, 399, 0, 256});
  fill_random(problem, 11);
  CHECK(saved_tokens(storage("f16"), problem) == 2 * 1024);
}

TEST_CASE("paged_attention.cascade.nan_of_one_member_stays_its_own", "[paged_attention]") {
  const AttentionProblem clean = shared_prompt(4, 512, 1, 12);
  AttentionProblem spoiled = clean;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::fill(spoiled.kv[1].v.begin() + 512 * spoiled.kv_row(), spoiled.kv[1].v.end(), nan);
  std::fill(spoiled.kv[1].k.begin() + 512 * spoiled.kv_row(), spoiled.kv[1].k.end(), nan);
  const std::int64_t row = clean.num_q_heads * clean.head_dim;
  std::fill_n(spoiled.q.end() - row, row, nan);  // the last member's
  for (const char* format : {"f32", "f16", "bf16", "int8", "int4"}) {
    INFO(format);
    const AttentionResult expected = storage(format).run(clean, {.share_pages = true});
    const AttentionResult result = storage(format).run(spoiled, {.num_threads = 2, .share_pages = true});
    const auto same = [&](std::int64_t begin, std::int64_t end) {
      return std::equal(result.out.begin() + begin * row, result.out.begin() + end * row, expected.out.begin() + begin * row);
    };
    CHECK(same(0, 1));
    CHECK(std::isnan(result.out[static_cast<std::size_t>(row)]));
    CHECK(same(2, 5));  // a chunk of three rows
    CHECK(std::isnan(result.out.back()));
  }
}

TEST_CASE("paged_attention.cascade.batches_of_any_size_are_planned_in_parts", "[paged_attention]") {
  AttentionProblem problem;
  problem.head_dim = 16;
  for (std::int64_t i = 0; i < 1030; ++i) problem.seqs.push_back({257, 1, 256, i == 0 ? -1 : 0, 256});
  fill_random(problem, 13);
  const std::int64_t groups = 22 + 1;  // 1,024 = 21 * 48 + 16 rows, and the last 6
  CHECK(saved_tokens(storage("int8"), problem, {.num_threads = 2}) == (1030 - groups) * 256);
  CHECK(saved_tokens(storage("int8"), problem, {.entry = Entry::kPlanned, .num_threads = 2}) == (1030 - 22) * 256);  // a plan is whole
}

TEST_CASE("paged_attention.cascade.plans_of_another_layer_and_checked_tables_keep_every_bit", "[paged_attention]") {
  for (const std::int64_t window : {0, 300, 2000}) {
    AttentionProblem problem = shared_prompt(5, 530, 1, 14);
    problem.window = window;
    problem.seqs.push_back({100, 0, 100});           // no rows in this step
    problem.seqs.push_back({300, 1, 299});           // a stranger
    problem.seqs.push_back({600, 60, 540, 0, 530});  // items of several tiles
    problem.seqs.push_back({100, 0, 100});
    fill_random(problem, 15);
    problem.inv_freq.assign(16, 0.1f);
    problem.key_bias.assign(64, 3.0f);
    for (const Storage& kv : storages()) {
      for (const int num_threads : {1, 2, 16}) {
        INFO(kv.format << " " << kv.layout << ", workers " << num_threads << ", window " << window);
        std::int64_t saved = -1, saved_by_plan = -1, saved_unchecked = -1;
        RunOptions options{.num_threads = num_threads, .permutation = 5, .chunk = 20, .share_pages = true, .cascade_tokens = &saved};
        const AttentionResult expected = kv.run(problem, options);
        options.entry = Entry::kPlanned, options.cascade_tokens = &saved_by_plan;
        CHECK(kv.run(problem, options) == expected);
        options.entry = Entry::kTablesChecked, options.cascade_tokens = &saved_unchecked;
        CHECK(kv.run(problem, options) == expected);
        CHECK(saved_by_plan == saved);
        CHECK(saved_unchecked == saved);
      }
    }
  }
  const AttentionProblem problem = shared_prompt(2, 40, 2, 16);
  const AttentionResult expected = storage("f16").run(problem, {.reference = true});
  CHECK(storage("f16").run(problem, {.reference = true, .entry = Entry::kTablesChecked}) == expected);
}
