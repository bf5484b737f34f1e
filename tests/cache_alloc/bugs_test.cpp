// Public bug reports about block allocators and prefix caches, as tests.
#include "cache_alloc/allocator_fixture.hpp"
#include "support/catch.hpp"

#include <random>
#include <set>
#include <type_traits>
#include <utility>

using namespace kvpage;
using namespace kvpage_test;

namespace {

using Allocator = BlockAllocator<>;
const Allocator::IndexOptions kOptions{SipSecret::fixed(11, 22)};

struct EightBitHash {
  SipHash13 inner{SipSecret::fixed(5, 6)};
  PrefixKey operator()(const PrefixKey& parent, std::uint32_t extra, std::span<const TokenId> tokens) const {
    return {inner(parent, extra, tokens).lo & 0xFF, 0};
  }
};

}  // namespace

// A BlockRef cannot be copied, and a free takes it away from its owner: without std::move it does not compile.
static_assert(!std::is_copy_constructible_v<BlockRef> && !std::is_copy_assignable_v<BlockRef>);
template <class Ref>
concept Freeable = requires(Allocator::Transaction& txn, Ref&& ref) { txn.free_block(std::forward<Ref>(ref)); };
static_assert(Freeable<BlockRef> && !Freeable<BlockRef&> && !Freeable<const BlockRef&> && !Freeable<const BlockRef>);

TEST_CASE("bug.B01.a_second_free_is_refused_whoever_asks", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 2, .block_size = 16}, kOptions};
  auto txn = pool->begin();
  BlockRef ref = txn->allocate_block().value();
  BlockRef forged{ref.id(), ref.generation()};
  CHECK(txn->free_block(std::move(ref)));
  const std::uint64_t freed = pool->digest();
  CHECK(ref.id() == kNoBlock);  // NOLINT: what a move leaves is what this is about
  CHECK(txn->free_block(std::move(ref)).error() == CacheRefusal{CacheRefusalKind::kNotHeld, 1, 0});
  CHECK(txn->free_block(BlockRef{}).error() == CacheRefusal{CacheRefusalKind::kNotHeld, 1, 0});
  CHECK(txn->free_block(std::move(forged)).error() == CacheRefusal{CacheRefusalKind::kNotHeld, 1, 0});
  CHECK(pool->digest() == freed);
  // The block of the next owner is not that of the first one, though it is the same block.
  std::vector<BlockRef> next;
  for (int i = 0; i < 2; ++i) next.push_back(txn->allocate_block().value());
  CHECK(forged.id() == next[forged.id() == next[0].id() ? 0 : 1].id());
  CHECK(txn->free_block(std::move(forged)).error().kind == CacheRefusalKind::kNotHeld);
  CHECK(pool->capacity().used == 2);
}

TEST_CASE("bug.B01.free_same_block_twice", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 8, .block_size = 16}, kOptions};
  auto txn = pool->begin();
  BlockRef ref = txn->allocate_block().value();
  const BlockId b = ref.id();
  const std::vector<BlockId> twice{b, b};
  const auto refused = txn->unref(twice);
  REQUIRE(!refused);
  CHECK(refused.error() == CacheRefusal{CacheRefusalKind::kNotHeld, 2, 1});
  CHECK(pool->ref_count(b) == 1);

  CHECK(txn->share_block(ref).value().id() == b);
  CHECK(pool->ref_count(b) == 2);
  CHECK(txn->unref(twice).has_value());
  CHECK(pool->capacity().clean == 8);
  CHECK(!txn->free_block(std::move(ref)));
  std::set<std::uint32_t> ids;
  for (int i = 0; i < 8; ++i) ids.insert(txn->allocate_block().value().id().value);
  CHECK(ids.size() == 8);
  CHECK(!txn->allocate_block());
  pool->check_invariants();
}

TEST_CASE("bug.B02.hash_collision_is_a_miss", "[cache_alloc]") {
  using Colliding = BlockAllocator<PrefixIndex<EightBitHash>>;
  AllocatorFixture<Colliding> pool{{.num_blocks = 1024, .block_size = 16}, Colliding::IndexOptions{EightBitHash{}}};
  std::mt19937_64 rng{2};
  std::set<Tokens> known;
  for (int i = 0; i < 1000; ++i) {
    Tokens tokens(16);
    for (auto& t : tokens) t = static_cast<TokenId>(rng() % 1000);
    known.insert(tokens);
    pool.end(pool.run(tokens));
  }
  int found = 0;
  for (const Tokens& tokens : known) found += pool.hit(tokens) == 16 ? 1 : 0;
  CHECK(found > 100);  // within 64 probes
  int wrong = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    Tokens tokens = *known.begin();
    tokens[rng() % 16] = static_cast<TokenId>(1000 + rng() % 1000);
    wrong += pool->match({.tokens = tokens}).num_blocks > 0 ? 1 : 0;
  }
  CHECK(wrong == 0);
  Tokens under_another_parent = tokens_from(5000, 16);
  under_another_parent.insert(under_another_parent.end(), known.begin()->begin(), known.begin()->end());
  CHECK(pool.hit(under_another_parent) == 0);
}

TEST_CASE("bug.B04.used_returns_to_zero_after_each_drain", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 64, .block_size = 16}, kOptions};
  for (TokenId run = 0; run < 1000; ++run) {
    const SeqId seq = pool.run(tokens_from(run * 100, 52));
    const CapacitySnapshot busy = pool->capacity();
    REQUIRE(busy.used == 4);
    REQUIRE(busy.utilisation() <= 1.0);
    pool.end(seq);
    REQUIRE(pool->capacity().used == 0);
    REQUIRE(pool->capacity().available() == 64);
  }
}

TEST_CASE("bug.B06.evicted_block_is_not_found", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 2, .block_size = 4}, kOptions};
  pool.end(pool.run(tokens_from(0, 4)));
  CHECK(pool.hit(tokens_from(0, 4)) == 4);
  pool.use_up(2);
  CHECK(pool.hit(tokens_from(0, 4)) == 0);
  CHECK(pool->index().tree().map().size() == 0);
  CHECK(pool->ref_count(BlockId{0}) == 1);
  CHECK(pool->ref_count(BlockId{1}) == 1);
  pool->check_invariants();
}

TEST_CASE("bug.B07.eviction_spares_used_blocks_and_failed_plans_keep_none", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 8, .block_size = 4, .max_seqs = 2}, kOptions};
  const SeqId seq = pool.run(tokens_from(0, 16));
  const BlockId held = pool->table(seq).blocks[0];
  auto txn = pool->begin();
  int taken = 0;
  while (auto block = txn->allocate_block()) {
    CHECK(block->id() != held);
    ++taken;
  }
  CHECK(taken == 4);
  txn->abort();

  pool.end(seq);
  const std::uint64_t before = pool->digest();
  auto plan = pool->begin();
  const Savepoint admission = plan->mark();
  const SeqId next = plan->create().value();
  CHECK(plan->share(next, pool->match({.tokens = tokens_from(0, 16)})).value().num_tokens == 16);
  CHECK(pool->capacity().used == 4);
  const auto refused = plan->grow(next, 4 * 9);
  REQUIRE(!refused);
  CHECK(refused.error().kind == CacheRefusalKind::kTableFull);
  const auto no_blocks = plan->make_writable(next, 0, 16);
  CHECK(no_blocks.has_value());
  CHECK(!plan->make_writable(next, 0, 17));
  plan->rollback_to(admission);
  CHECK(pool->digest() == before);
}

TEST_CASE("bug.B09.reset_cannot_be_missed", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 16, .block_size = 4, .max_seqs = 2}, kOptions};
  const Tokens prompt = tokens_from(0, 12);
  const SeqId running = pool.run(prompt);
  const PrefixHit old_hit = pool->match({.tokens = prompt});
  const auto refused = pool->reset(CacheReset::kIfIdle);
  REQUIRE(!refused);
  CHECK(refused.error() == CacheRefusal{CacheRefusalKind::kBusy, 0, 1});
  CHECK(pool.hit(prompt) == 12);

  REQUIRE(pool->reset(CacheReset::kDetach));
  CHECK(pool->capacity().epoch == 1);
  CHECK(pool.hit(prompt) == 0);
  CHECK(pool->num_tokens(running) == 12);
  REQUIRE(pool->publish(running, {.tokens = prompt}));
  CHECK(pool.hit(prompt) == 0);  // its content belongs to the old weights
  auto txn = pool->begin();
  const SeqId next = txn->create().value();
  const auto stale = txn->share(next, old_hit);
  REQUIRE(!stale);
  CHECK(stale.error().kind == CacheRefusalKind::kStaleHit);
  txn->abort();
  pool.end(running);
  CHECK(pool->capacity().clean == 16);
  pool->check_invariants();
}

TEST_CASE("bug.B10.chains_are_evicted_from_their_tail", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 4, .block_size = 4}, kOptions};
  pool.end(pool.run(tokens_from(0, 16)));
  for (int evicted = 1; evicted <= 4; ++evicted) {
    pool.use_up(1);
    CHECK(pool.hit(tokens_from(0, 16)) == 4 * (4 - evicted));
  }
  AllocatorFixture<Allocator> forked{{.num_blocks = 6, .block_size = 4}, kOptions};
  Tokens a = tokens_from(0, 16);
  Tokens b = tokens_from(0, 8);
  for (const TokenId t : tokens_from(100, 8)) b.push_back(t);
  forked.end(forked.run(a));
  forked.end(forked.run(b));
  forked.use_up(4);
  CHECK(forked.hit(a) == 8);  // the shared head goes last
  CHECK(forked.hit(b) == 8);
}
