/// \file The attention kernel touches no byte outside of its buffers: pool, scratch, queries and outputs have exactly their size, in a
/// program under the sanitizers. One storage stands for all: integer keys with a scale per token, and a bias that is taken out.
#include "attention_storage.hpp"
#include "support/isa.hpp"

#include <kvpage/kv/kv_formats.hpp>

namespace kvpage_test {

const std::vector<Storage>& storages() {
  static const std::vector<Storage> none;  // this program names its storage itself
  return none;
}

namespace {

AttentionProblem ragged_problem(std::int64_t head_dim, std::int64_t window) {
  AttentionProblem problem;
  problem.num_q_heads = 6, problem.num_kv_heads = 2;
  problem.head_dim = head_dim, problem.window = window;
  problem.seqs = {{1, 1, 0}, {33, 33, 0}, {290, 3, 287}, {64, 17, 47}};
  fill_random(problem, 7);
  return problem;
}

}  // namespace

TEST_CASE("paged_attention_memory.every_shape_stays_inside_its_buffers_on_every_instruction_set", "[paged_attention]") {
  using KV = CpuKV<Int8KV>;
  for (const std::int64_t head_dim : {64, 80}) {
    for (const std::int64_t window : {0, 40}) {
      const AttentionProblem problem = ragged_problem(head_dim, window);
      for (const std::int64_t block_size : {16, 24}) {
        const AttentionResult want = AttentionRun<KV>(problem, {.block_size = block_size, .isa = Isa::kGeneric}).run();
        for (const Isa isa : runnable_isas()) {
          for (const int threads : {1, 2}) {
            INFO(isa_name(isa) << ", head_dim " << head_dim << ", window " << window << ", block_size " << block_size << ", " << threads
                               << " threads");
            const RunOptions options{.block_size = block_size, .num_threads = threads, .isa = isa, .permutation = 3};
            CHECK(AttentionRun<KV>(problem, options).run() == want);
          }
        }
      }
    }
  }
}

}  // namespace kvpage_test
