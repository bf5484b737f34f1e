/// \file What must never be read or written: free pages, slots past the end, keys of the future, pages behind a window.
#include "attention_problem.hpp"

#include "support/catch.hpp"

#include <cmath>
#include <limits>

using namespace kvpage_test;

namespace {

AttentionProblem ragged(unsigned seed) {
  AttentionProblem problem;
  problem.num_q_heads = 6;
  problem.num_kv_heads = 2;
  problem.seqs = {{1, 1, 0}, {31, 31, 0}, {45, 2, 43}, {64, 64, 0}, {257, 3, 254}};
  fill_random(problem, seed);
  return problem;
}

bool all_finite(const AttentionResult& result) {
  for (const float x : result.out) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("paged_attention.poison.free_pages_and_slots_past_the_end_are_never_used", "[paged_attention]") {
  // The pool starts as NaN everywhere (AttentionRun), so one multiplied stray slot shows.
  const AttentionProblem problem = ragged(1);
  for (const Storage& storage : storages()) {
    for (const std::int64_t block_size : {8, 32, 64}) {
      INFO(storage.format << " " << storage.layout << ", block size " << block_size);
      CHECK(all_finite(storage.run(problem, {.block_size = block_size})));
      CHECK(all_finite(storage.run(problem, {.reference = true, .block_size = block_size})));
    }
  }
}

TEST_CASE("paged_attention.poison.damaged_future_keys_reach_no_earlier_row", "[paged_attention]") {
  AttentionProblem problem = ragged(2);
  AttentionProblem damaged = problem;
  const std::int64_t row = problem.kv_row();
  for (std::int64_t d = 0; d < row; ++d) {
    damaged.kv[3].k[static_cast<std::size_t>(40 * row + d)] = std::numeric_limits<float>::quiet_NaN();
    damaged.kv[3].v[static_cast<std::size_t>(40 * row + d)] = std::numeric_limits<float>::infinity();
  }
  for (const char* format : {"f32", "f16", "bf16", "fp8", "int8", "int4", "int4-k4"}) {
    const AttentionResult clean = storage(format).run(problem, {});
    const AttentionResult result = storage(format).run(damaged, {});
    const std::int64_t first = 1 + 31 + 2;  // rows before sequence 3
    for (std::int64_t i = 0; i < 64; ++i) {
      const auto at = static_cast<std::size_t>((first + i) * problem.num_q_heads * problem.head_dim);
      INFO(format << ", row " << i);
      if (i < 40) CHECK(result.out[at] == clean.out[at]);
      if (i >= 40) CHECK(!std::isfinite(result.out[at]));  // a row that sees the damage shows it
    }
  }
}

TEST_CASE("paged_attention.poison.pages_behind_the_window_may_be_gone", "[paged_attention]") {
  AttentionProblem problem = ragged(3);
  problem.window = 20;
  problem.seqs = {{200, 200, 0}, {90, 5, 85}};
  fill_random(problem, 4);
  for (const Storage& storage : storages()) {
    for (const std::int64_t block_size : {8, 16, 32}) {
      INFO(storage.format << " " << storage.layout << ", block size " << block_size);
      const AttentionResult kept = storage.run(problem, {.block_size = block_size, .chunk = 7});
      CHECK(storage.run(problem, {.block_size = block_size, .chunk = 7, .free_behind_window = true}) == kept);
      if (storage.layout == "key-transposed") {
        CHECK(storage.run(problem, {.reference = true, .block_size = block_size, .chunk = 7, .free_behind_window = true}) ==
              storage.run(problem, {.reference = true, .block_size = block_size}));
      }
    }
  }
}
