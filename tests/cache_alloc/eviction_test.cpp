// One conformance suite for every eviction policy, and what each of them is for.
#include <kvpage/cache/eviction_arc.hpp>
#include <kvpage/cache/eviction_cost_aware.hpp>
#include <kvpage/cache/eviction_priority_ttl.hpp>
#include <kvpage/cache/eviction_segmented_lru.hpp>

#include "cache_alloc/allocator_fixture.hpp"
#include "support/catch.hpp"

#include <random>

using namespace kvpage;
using namespace kvpage_test;

namespace {

template <class Policy>
using Cached = BlockAllocator<PrefixIndex<>, Policy>;

const PrefixIndexOptions<> kOptions{SipSecret::fixed(1, 2)};

/// Prompts from a small tree of shared prefixes.
Tokens random_prompt(std::mt19937_64& rng) {
  Tokens tokens;
  const std::size_t blocks = 1 + rng() % 5;
  for (std::size_t i = 0; i < blocks; ++i) {
    for (const TokenId t : tokens_from(static_cast<TokenId>(rng() % 3 * 10), 4)) tokens.push_back(t);
  }
  tokens.resize(tokens.size() - rng() % 4);
  return tokens;
}

}  // namespace

TEMPLATE_TEST_CASE("cache_alloc.eviction.every_policy_conforms", "[cache_alloc]", Lru, SegmentedLru, Arc, PriorityTtl, CostAware) {
  AllocatorFixture<Cached<TestType>> pool{{.num_blocks = 24, .block_size = 4, .max_seqs = 3}, kOptions};
  std::mt19937_64 rng{99};
  std::vector<SeqId> live;
  for (int round = 0; round < 4000; ++round) {
    const Retention wish{static_cast<std::uint8_t>(rng() % 101), static_cast<std::int64_t>(rng() % 2 * rng() % 4000),
                         static_cast<std::int64_t>(rng() % 1000)};
    live.push_back(pool.run(random_prompt(rng), wish));
    pool->check_invariants();
    if (rng() % 16 == 0) pool->expire(round).value();

    const std::uint64_t before = pool->digest();
    const std::int64_t available = pool->capacity().available();
    std::vector<std::uint32_t> orders[2];
    for (auto& order : orders) {  // the same state gives the same victims, every cached block can be one, and abort undoes it
      auto txn = pool->begin();
      while (const auto block = txn->allocate_block()) {
        order.push_back(block->id().value);
        if (order.size() % 4 == 0) pool->check_invariants();
      }
      REQUIRE(static_cast<std::int64_t>(order.size()) == available);
      txn->abort();
      REQUIRE(pool->digest() == before);
    }
    REQUIRE(orders[0] == orders[1]);
    if (live.size() == 3 || rng() % 2 == 0) {
      const std::size_t at = rng() % live.size();
      auto txn = pool->begin();
      txn->release(live[at]).value();
      pool->check_invariants();
      if (rng() % 4 == 0) {
        txn->abort();
        REQUIRE(pool->digest() == before);
        txn = pool->begin().value();
        txn->release(live[at]).value();
      }
      txn->commit().value();
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

TEST_CASE("cache_alloc.eviction.lru_forgets_the_oldest", "[cache_alloc]") {
  AllocatorFixture<Cached<Lru>> pool{{.num_blocks = 3, .block_size = 4}, kOptions};
  for (TokenId p = 0; p < 3; ++p) pool.end(pool.run(tokens_from(p * 100, 4)));
  pool.end(pool.run(tokens_from(0, 4)));  // touch the first
  pool.use_up(1);
  CHECK(pool.hit(tokens_from(0, 4)) == 4);
  CHECK(pool.hit(tokens_from(100, 4)) == 0);
  CHECK(pool.hit(tokens_from(200, 4)) == 4);
}

TEMPLATE_TEST_CASE("cache_alloc.eviction.a_scan_does_not_push_out_what_was_hit", "[cache_alloc]", SegmentedLru, Arc) {
  AllocatorFixture<Cached<TestType>> pool{{.num_blocks = 8, .block_size = 4}, kOptions};
  for (int i = 0; i < 2; ++i) pool.end(pool.run(tokens_from(0, 8)));
  for (TokenId scan = 1; scan < 100; ++scan) pool.end(pool.run(tokens_from(scan * 100, 4)));
  CHECK(pool.hit(tokens_from(0, 8)) == 8);
}

TEST_CASE("cache_alloc.eviction.priorities_decide_until_they_expire", "[cache_alloc]") {
  AllocatorFixture<Cached<PriorityTtl>> pool{{.num_blocks = 4, .block_size = 4}, kOptions};
  pool.end(pool.run(tokens_from(0, 4), {.priority = 90, .expires_at_ns = 1000}));
  pool.end(pool.run(tokens_from(100, 4), {.priority = 35}));
  pool.end(pool.run(tokens_from(200, 4), {.priority = 10}));
  pool.use_up(2);  // one clean block, then the least priority
  CHECK(pool.hit(tokens_from(200, 4)) == 0);
  CHECK(pool.hit(tokens_from(0, 4)) == 4);
  pool->expire(1000).value();
  pool.use_up(1);  // now both have the default priority: the older one goes
  CHECK(pool.hit(tokens_from(0, 4)) == 0);
  CHECK(pool.hit(tokens_from(100, 4)) == 4);
}

TEST_CASE("cache_alloc.eviction.cheap_blocks_go_first", "[cache_alloc]") {
  AllocatorFixture<Cached<CostAware>> pool{{.num_blocks = 2, .block_size = 4}, kOptions};
  pool.end(pool.run(tokens_from(0, 4), {.recompute_ns_per_block = 900}));
  pool.end(pool.run(tokens_from(100, 4), {.recompute_ns_per_block = 10}));
  pool.use_up(1);
  CHECK(pool.hit(tokens_from(0, 4)) == 4);
  CHECK(pool.hit(tokens_from(100, 4)) == 0);
}
