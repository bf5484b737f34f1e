// Which leaf a policy gives up first: of a chain only the last block counts, and each block in its turn.
#include <kvpage/cache/eviction_priority_ttl.hpp>

#include "cache_alloc/allocator_fixture.hpp"
#include "support/catch.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {
using Pool = AllocatorFixture<BlockAllocator<PrefixIndex<>, PriorityTtl>>;
const PrefixIndexOptions<> kOptions{SipSecret::fixed(1, 2)};
}  // namespace

TEST_CASE("cache_alloc.leaf_order.a_block_is_a_candidate_as_soon_as_nothing_builds_on_it", "[cache_alloc]") {
  Pool pool{{.num_blocks = 4, .block_size = 4}, kOptions};
  pool.end(pool.run(tokens_from(0, 12), {.priority = 10}));
  pool.end(pool.run(tokens_from(100, 4), {.priority = 90}));
  for (const std::int64_t left : {8, 4, 0}) {
    pool.use_up(1);
    CHECK(pool.hit(tokens_from(0, 12)) == left);
    CHECK(pool.hit(tokens_from(100, 4)) == 4);
    pool->check_invariants();
  }
}

TEST_CASE("cache_alloc.leaf_order.a_block_is_no_candidate_while_others_build_on_it", "[cache_alloc]") {
  Pool pool{{.num_blocks = 3, .block_size = 4}, kOptions};
  const Tokens prompt = tokens_from(0, 8);
  auto txn = pool->begin();
  const SeqId seq = txn->create().value();
  txn->grow(seq, 8).value();
  txn->commit().value();
  pool->publish(seq, {.tokens = std::span{prompt}.first(4), .retention = {.priority = 10}}).value();
  pool->publish(seq, {.tokens = prompt, .retention = {.priority = 90}}).value();
  pool.end(seq);
  pool.end(pool.run(tokens_from(100, 4), {.priority = 50}));
  pool.use_up(1);  // what has 10 is needed by what has 90
  CHECK(pool.hit(tokens_from(100, 4)) == 0);
  CHECK(pool.hit(prompt) == 8);
  pool.use_up(1);
  CHECK(pool.hit(prompt) == 4);
}
