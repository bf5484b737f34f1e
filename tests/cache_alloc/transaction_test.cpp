// What transactions, steps, copies and pins promise, one small example each.
#include "cache_alloc/allocator_fixture.hpp"
#include "support/catch.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

using Allocator = BlockAllocator<>;
using Fixture = AllocatorFixture<Allocator>;
const Allocator::IndexOptions kOptions{SipSecret::fixed(11, 22)};

}  // namespace

TEST_CASE("cache_alloc.transaction.a_length_takes_its_blocks_and_no_more", "[cache_alloc]") {
  for (std::int64_t length = 0; length <= 16; ++length) {
    Fixture pool{{.num_blocks = 8, .block_size = 4}, kOptions};
    const SeqId seq = pool.compute(length);
    CHECK(pool->capacity().used == (length + 3) / 4);
    for (std::int64_t less = length; less >= 0; --less) {
      auto txn = pool->begin();
      txn->truncate(seq, less).value();
      txn->commit().value();
      CHECK(pool->capacity().used == (less + 3) / 4);
      CHECK(std::ssize(pool->table(seq).blocks) == (less + 3) / 4);
    }
    pool->check_invariants();
  }
}

TEST_CASE("cache_alloc.transaction.a_refusal_names_need_and_available_and_changes_nothing", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 4, .block_size = 4, .max_seqs = 2, .max_blocks_per_seq = 4}, kOptions};
  const SeqId seq = pool.compute(6);
  const SeqId other = pool.compute(4);
  const std::uint64_t before = pool->digest();
  auto txn = pool->begin();
  CHECK(txn->grow(seq, 16).error() == CacheRefusal{CacheRefusalKind::kNoBlocks, 2, 1});
  CHECK(txn->grow(seq, 17).error() == CacheRefusal{CacheRefusalKind::kTableFull, 5, 4});
  CHECK(txn->create().error() == CacheRefusal{CacheRefusalKind::kNoSeqSlot, 3, 2});
  CHECK(txn->fork(seq).error() == CacheRefusal{CacheRefusalKind::kNoSeqSlot, 3, 2});
  CHECK(txn->truncate(other, 5).error() == CacheRefusal{CacheRefusalKind::kBadLength, 5, 4});
  CHECK(pool->num_tokens(seq) == 6);
  CHECK(pool->digest() == before);
  txn->grow(seq, 12).value();
  CHECK(txn->grow(other, 5).error() == CacheRefusal{CacheRefusalKind::kNoBlocks, 1, 0});
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.a_refusal_counts_every_group", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 5, .block_size = 4, .num_groups = 2, .window_tokens = {0, 8}}, kOptions};
  auto txn = pool->begin();
  const SeqId seq = txn->create().value();
  CHECK(txn->grow(seq, 9).error() == CacheRefusal{CacheRefusalKind::kNoBlocks, 6, 5});
  txn->grow(seq, 8).value();
  CHECK(pool->capacity().used == 4);
  CHECK(txn->grow(seq, 9).error() == CacheRefusal{CacheRefusalKind::kNoBlocks, 2, 1});
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.abort_takes_every_operation_back", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 12, .block_size = 4, .max_seqs = 4}, kOptions};
  const SeqId seq = pool.run(tokens_from(0, 10));
  pool.end(pool.run(tokens_from(100, 8)));
  const std::uint64_t before = pool->digest();
  auto txn = pool->begin();
  SECTION("create, grow") { CHECK(txn->grow(txn->create().value(), 20)); }
  SECTION("fork") { CHECK(txn->fork(seq)); }
  SECTION("copy on write") { CHECK(txn->make_writable(txn->fork(seq).value(), 9, 10)); }
  SECTION("truncate") { CHECK(txn->truncate(seq, 3)); }
  SECTION("release") { CHECK(txn->release(seq)); }
  SECTION("share") { CHECK(txn->share(txn->create().value(), pool->match({.tokens = tokens_from(100, 8)}))); }
  SECTION("share a part") { CHECK(txn->share(txn->create().value(), pool->match({.tokens = tokens_from(100, 6)}))); }
  SECTION("evict") {
    while (txn->allocate_block()) pool->check_invariants();
    CHECK(pool->capacity().available() == 0);
  }
  pool->check_invariants();
  txn->abort();
  CHECK(pool->digest() == before);
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.a_rollback_forgets_the_copies_behind_its_mark", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 8, .block_size = 4, .max_seqs = 2}, kOptions};
  const SeqId seq = pool.compute(6);
  auto txn = pool->begin();
  const SeqId child = txn->fork(seq).value();
  const Savepoint mark = txn->mark();
  txn->make_writable(child, 5, 6).value();
  REQUIRE(txn->copies().size() == 1);
  txn->rollback_to(mark);
  CHECK(txn->copies().empty());
  CHECK(txn->commit());  // nothing is left that needs a launch
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.copy_on_write_keeps_what_the_write_leaves", "[cache_alloc]") {
  struct Case {
    std::int64_t first, last, copied;  ///< a write to [first, last) of 6 tokens; -1 = no copy
  };
  for (const Case& c : {Case{5, 6, 1}, Case{4, 6, -1}, Case{4, 5, 2}, Case{3, 4, 3}, Case{0, 4, -1}, Case{1, 2, 4}}) {
    CAPTURE(c.first, c.last);
    Fixture pool{{.num_blocks = 8, .block_size = 4, .max_seqs = 2}, kOptions};
    const SeqId seq = pool.compute(6);
    auto txn = pool->begin();
    const SeqId child = txn->fork(seq).value();
    txn->make_writable(child, c.first, c.last).value();
    const auto at = static_cast<std::size_t>(c.first / 4);
    CHECK(pool->table(child).blocks[at] != pool->table(seq).blocks[at]);
    CHECK(pool->table(child).blocks[1 - at] == pool->table(seq).blocks[1 - at]);
    REQUIRE(txn->copies().size() == (c.copied < 0 ? 0u : 1u));
    if (c.copied >= 0) CHECK(txn->copies()[0].num_tokens == c.copied);
    CHECK(pool->ref_count(pool->table(child).blocks[at]) == 1);
    pool->check_invariants();
    pool->commit(txn->seal().value()).value();
    CHECK(pool->ref_count(pool->table(seq).blocks[at]) == 1);  // the copy has run: its hold is over
    CHECK(pool->capacity().used == 3);
    pool->check_invariants();
  }
}

TEST_CASE("cache_alloc.transaction.a_findable_block_is_never_written_in_place", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 8, .block_size = 4}, kOptions};
  const Tokens prompt = tokens_from(0, 8);
  const SeqId seq = pool.run(prompt);
  const BlockId findable = pool->table(seq).blocks[1];
  auto txn = pool->begin();
  txn->make_writable(seq, 6, 8).value();
  CHECK(pool->table(seq).blocks[1] != findable);
  CHECK(txn->copies().size() == 1);
  pool->commit(txn->seal().value()).value();
  CHECK(pool.hit(prompt) == 8);
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.blocks_released_under_a_step_wait_until_it_retires", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 8, .block_size = 4, .max_seqs = 2}, kOptions};
  const SeqId private_one = pool.compute(8);
  const SeqId published = pool.run(tokens_from(0, 8));
  auto plan = pool->begin();
  plan->grow(published, 9).value();
  const StepId step = plan->seal().value();
  pool.end(private_one);
  CHECK(pool->capacity().pending == 2);
  pool->commit(step, false).value();
  pool.end(published);
  CHECK(pool->capacity().pending == 5);
  CHECK(pool->capacity().available() == 3);
  pool->check_invariants();
  pool->retire(step).value();
  CHECK(pool->capacity().pending == 0);
  CHECK(pool->capacity().clean == 6);
  CHECK(pool->capacity().cached == 2);
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.abort_after_seal_leaves_victims_private_and_rows_as_they_were", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 4, .block_size = 4, .max_seqs = 3}, kOptions};
  pool.end(pool.run(tokens_from(0, 8)));
  const SeqId seq = pool.compute(6);
  auto plan = pool->begin();
  plan->grow(seq, 9).value();  // evicts
  const SeqId fork = plan->fork(seq).value();
  const StepId step = plan->seal().value();
  CHECK(pool->abort(step).value() == 0);
  CHECK(!pool->alive(fork));
  CHECK(pool->num_tokens(seq) == 6);
  CHECK(pool->capacity().used == 2);
  CHECK(pool->capacity().available() == 2);
  CHECK(pool.hit(tokens_from(0, 8)) == 4);
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.a_row_whose_blocks_an_aborted_step_overwrote_is_lost", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 3, .block_size = 4, .max_seqs = 2}, kOptions};
  const SeqId seq = pool.compute(8);
  const SeqId other = pool.compute(4);
  auto plan = pool->begin();
  plan->truncate(seq, 4).value();
  plan->grow(other, 8).value();  // in the block that was given back
  CHECK(pool->abort(plan->seal().value()).value() == 1);
  CHECK(pool->num_tokens(seq) == 8);
  CHECK(pool->content_lost(seq));
  CHECK(!pool->content_lost(other));
  CHECK(pool->capacity().used == 3);
  pool->check_invariants();
  pool->publish(seq, {.tokens = tokens_from(0, 8)}).value();
  CHECK(pool.hit(tokens_from(0, 8)) == 0);
}

TEST_CASE("cache_alloc.transaction.ids_of_the_past_are_dead", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 1, .block_size = 4}, kOptions};
  auto txn = pool->begin();
  BlockRef old = txn->allocate_block().value();
  const BlockId raw[] = {old.id()};
  txn->unref(raw).value();
  const BlockRef now = txn->allocate_block().value();
  REQUIRE(now.id() == raw[0]);
  CHECK(txn->free_block(std::move(old)).error().kind == CacheRefusalKind::kNotHeld);
  CHECK(pool->ref_count(now.id()) == 1);
  txn->unref(raw).value();

  const SeqId ended = txn->create().value();
  txn->release(ended).value();
  const SeqId next = txn->create().value();
  REQUIRE(next.slot == ended.slot);
  CHECK(!pool->alive(ended));
  CHECK(txn->grow(ended, 4).error().kind == CacheRefusalKind::kDeadSeq);
}

TEST_CASE("cache_alloc.transaction.a_cut_sequence_publishes_its_new_tokens", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 8, .block_size = 4}, kOptions};
  const SeqId seq = pool.run(tokens_from(0, 8));
  auto txn = pool->begin();
  txn->truncate(seq, 4).value();
  txn->grow(seq, 8).value();
  txn->commit().value();
  Tokens tokens = tokens_from(0, 8);
  tokens[5] = 99;
  pool->publish(seq, {.tokens = tokens}).value();
  CHECK(pool.hit(tokens) == 8);
  CHECK(pool.hit(tokens_from(0, 8)) == 8);
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.pins_keep_whole_prefixes_up_to_half_the_pool", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 6, .block_size = 4}, kOptions};
  pool.end(pool.run(tokens_from(0, 12)));
  pool.end(pool.run(tokens_from(100, 4)));
  const PinId two = pool->pin(pool->match({.tokens = tokens_from(0, 8)})).value();
  const PinId three = pool->pin(pool->match({.tokens = tokens_from(0, 12)})).value();
  CHECK(pool->capacity().pinned == 3);  // each block once
  CHECK(pool->pin(pool->match({.tokens = tokens_from(100, 4)})).error() == CacheRefusal{CacheRefusalKind::kPinLimit, 4, 3});
  pool->check_invariants();
  pool.use_up(3);
  CHECK(pool.hit(tokens_from(0, 12)) == 12);
  CHECK(pool.hit(tokens_from(100, 4)) == 0);
  pool->unpin(three).value();
  CHECK(pool->capacity().pinned == 2);
  CHECK(pool->unpin(three).error().kind == CacheRefusalKind::kNotHeld);
  pool->unpin(two).value();
  CHECK(pool->capacity().pinned == 0);
  CHECK(pool->capacity().cached == 3);
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.sizes_hold_to_the_last_one_that_works", "[cache_alloc]") {
  const auto works = [](const BlockAllocatorConfig& config) {
    try {
      static_cast<void>(config.with_defaults());
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  };
  for (const std::int64_t size : {1, 2, 512, 1024}) CHECK(works({.num_blocks = 8, .block_size = size}));
  for (const std::int64_t size : {0, 3, 1023, 2048}) CHECK_FALSE(works({.num_blocks = 8, .block_size = size}));
  CHECK((works({.num_blocks = 8, .max_copies = 16'383}) && !works({.num_blocks = 8, .max_copies = 16'384})));
  CHECK((works({.num_blocks = 8, .max_blocks_per_seq = 8}) && !works({.num_blocks = 8, .max_blocks_per_seq = 9})));
  CHECK(BlockAllocatorConfig{.num_blocks = 8, .max_seqs = 3, .num_groups = 2}.with_defaults().max_copies == 2 * 3 * 2);
  CHECK(BlockAllocatorConfig{.num_blocks = 8}.with_defaults().max_blocks_per_seq == 8);
}

TEST_CASE("cache_alloc.transaction.there_are_64_pins", "[cache_alloc]") {
  Fixture pool{{.num_blocks = 8, .block_size = 4}, kOptions};
  pool.end(pool.run(tokens_from(0, 4)));
  const PrefixHit hit = pool->match({.tokens = tokens_from(0, 4)});
  for (int i = 0; i < 64; ++i) CHECK(pool->pin(hit).has_value());
  CHECK_FALSE(pool->pin(hit).has_value());
  pool->check_invariants();
}

TEST_CASE("cache_alloc.transaction.an_allocator_constructs_as_it_stands_with_memory_and_a_secret_of_its_own", "[cache_alloc]") {
  const BlockAllocatorConfig config{.num_blocks = 8, .block_size = 4};
  BlockAllocator<> one{config};
  BlockAllocator<> other{config};
  CHECK_FALSE(one.index().root_key(0) == other.index().root_key(0));  // whoever knows one process's secret knows no other's
  const std::vector<TokenId> tokens = tokens_from(0, 12);
  for (int run = 0; run < 2; ++run) {
    const PrefixHit hit = one.match({.tokens = tokens, .max_tokens = 12});
    CHECK(hit.num_tokens == 12 * run);
    auto plan = one.begin().value();
    const SeqId seq = plan.create().value();
    REQUIRE(plan.share(seq, hit));
    REQUIRE(plan.grow(seq, 12));
    REQUIRE(plan.commit());
    REQUIRE(one.publish(seq, {.tokens = tokens}));
    auto end = one.begin().value();
    REQUIRE(end.release(seq));
    REQUIRE(end.commit());
    one.check_invariants();
  }
  CHECK(other.match({.tokens = tokens, .max_tokens = 12}).num_tokens == 0);
  CHECK_THROWS_AS(BlockAllocator<>(BlockAllocatorConfig{}), ConfigError);
}

TEST_CASE("cache_alloc.transaction.at_its_cap_of_nodes_the_index_takes_no_more", "[cache_alloc]") {
  Allocator::IndexOptions three = kOptions;
  three.max_nodes = 3;
  Fixture pool{{.num_blocks = 8, .block_size = 4}, three};
  pool.end(pool.run(tokens_from(0, 12)));
  pool.end(pool.run(tokens_from(100, 4)));
  CHECK(pool.hit(tokens_from(0, 12)) == 12);
  CHECK(pool.hit(tokens_from(100, 4)) == 0);
  pool->check_invariants();
  for (const std::int64_t blocks : {8, 100, 4096}) {  // a quarter more than blocks, and one
    Allocator::IndexOptions given = kOptions;
    given.max_nodes = blocks + blocks / 4 + 1;
    const BlockAllocatorConfig config{.num_blocks = blocks, .block_size = 4};
    CHECK(Allocator::required_bytes(config, given) == Allocator::required_bytes(config, kOptions));
    ++given.max_nodes;
    CHECK(Allocator::required_bytes(config, given) > Allocator::required_bytes(config, kOptions));
  }
}
