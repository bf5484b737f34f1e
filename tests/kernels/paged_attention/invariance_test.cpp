/// \file Equal bits: whatever the batch, chunks, workers, page order, block size, layout or instruction set.
#include "attention_problem.hpp"

#include "support/catch.hpp"

#include <kvpage/exec/isa.hpp>

#include <cmath>

using namespace kvpage_test;

namespace {

const char* const kFormats[] = {"f32", "f16", "bf16", "fp8", "int8", "int4", "int4-k4"};

/// One prompt of 777 tokens, all rows asked for.
AttentionProblem prompt(std::int64_t window, unsigned seed) {
  AttentionProblem problem;
  problem.num_q_heads = 6;
  problem.num_kv_heads = 2;
  problem.head_dim = 32;
  problem.scale = 0.25f;
  problem.window = window;
  problem.softcap = 20.0f;
  problem.seqs = {{777, 777, 0}};
  fill_random(problem, seed);
  return problem;
}

}  // namespace

TEST_CASE("paged_attention.invariance.chunks_and_workers_change_no_bit", "[paged_attention]") {
  for (const std::int64_t window : {0, 50}) {
    const AttentionProblem problem = prompt(window, 1);
    for (const char* format : kFormats) {
      const AttentionResult whole = storage(format).run(problem, {});
      for (const std::int64_t chunk : {1, 16, 100, 777}) {
        const int num_threads = chunk == 1 ? 1 : (chunk == 16 ? 3 : 2);
        INFO(format << ", window " << window << ", chunk " << chunk << ", workers " << num_threads);
        CHECK(storage(format).run(problem, {.num_threads = num_threads, .chunk = chunk}) == whole);
      }
    }
  }
}

TEST_CASE("paged_attention.invariance.page_order_block_size_and_layout_change_no_bit", "[paged_attention]") {
  AttentionProblem problem = prompt(0, 2);
  problem.seqs = {{300, 40, 260}, {77, 1, 76}};
  for (const std::int64_t head_dim : {32, 72, 80}) {
    problem.head_dim = head_dim;
    fill_random(problem, 3);
    for (const char* format : kFormats) {
      const AttentionResult expected = storage(format).run(problem, {.block_size = 32});
      for (const char* layout : {"key-transposed", "token-major", "head-major"}) {
        for (const std::int64_t block_size : {8, 16, 32, 64}) {
          INFO(format << " " << layout << ", block size " << block_size << ", head_dim " << head_dim);
          CHECK(storage(format, layout).run(problem, {.block_size = block_size, .num_threads = 2, .permutation = 9}) == expected);
        }
      }
    }
  }
}

TEST_CASE("paged_attention.invariance.every_instruction_set_gives_the_bits_of_generic", "[paged_attention]") {
  AttentionProblem problem = prompt(0, 4);
  problem.seqs = {{300, 19, 281}, {77, 1, 76}};
  problem.head_dim = 80;
  fill_random(problem, 5);
  const kvpage::CpuFeatures features = kvpage::detect_cpu_features();
  for (const char* format : kFormats) {
    for (const std::int64_t window : {0, 50}) {  // the window begins in the second step of a pair
      problem.window = window;
      const AttentionResult expected = storage(format).run(problem, {.isa = kvpage::Isa::kGeneric});
      for (const kvpage::Isa isa : kvpage::kAllIsas) {
        if (kvpage::missing_feature(isa, features) != nullptr) continue;
        INFO(format << " on " << kvpage::isa_name(isa) << ", window " << window);
        CHECK(storage(format).run(problem, {.isa = isa}) == expected);
      }
    }
  }
}
