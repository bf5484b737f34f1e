// What an abort of a sealed step says about bytes that do not come back with the tables.
#include "cache_alloc/allocator_fixture.hpp"
#include "support/catch.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

using Allocator = BlockAllocator<>;
using Fixture = AllocatorFixture<Allocator>;
const Allocator::IndexOptions kOptions{SipSecret::fixed(11, 22)};
const BlockAllocatorConfig kConfig{.num_blocks = 12, .block_size = 4, .max_seqs = 4};

/// Plans one step with `plan(transaction)` and seals it.
template <class Plan>
StepId sealed(Fixture& pool, Plan&& plan) {
  auto txn = pool->begin();
  plan(*txn);
  return txn->seal().value();
}

/// Does `change(transaction)` without a launch.
template <class Change>
void directly(Fixture& pool, Change&& change) {
  auto txn = pool->begin();
  change(*txn);
  txn->commit().value();
}

SeqId sequence(Fixture& pool, std::int64_t num_tokens) {
  SeqId seq;
  directly(pool, [&](auto& txn) {
    seq = txn.create().value();
    txn.grow(seq, num_tokens).value();
  });
  return seq;
}

/// A fork of `parent`, cut to `num_tokens`.
SeqId shorter_fork(Fixture& pool, SeqId parent, std::int64_t num_tokens) {
  SeqId child;
  directly(pool, [&](auto& txn) {
    child = txn.fork(parent).value();
    txn.truncate(child, num_tokens).value();
  });
  return child;
}

template <class Txn>
void append(Txn& txn, Fixture& pool, SeqId seq, std::int64_t num_tokens) {
  const std::int64_t before = pool->num_tokens(seq);
  txn.grow(seq, num_tokens).value();
  txn.make_writable(seq, before, num_tokens).value();
}

}  // namespace

TEST_CASE("cache_alloc.content_lost.a_released_fork_comes_back_overwritten", "[cache_alloc]") {
  for (const bool make_writable : {false, true}) {
    CAPTURE(make_writable);
    Fixture pool{kConfig, kOptions};
    const SeqId longer = sequence(pool, 7);
    const SeqId shorter = shorter_fork(pool, longer, 5);
    const StepId step = sealed(pool, [&](auto& txn) {
      txn.release(longer).value();
      txn.grow(shorter, 6).value();
      if (make_writable) txn.make_writable(shorter, 5, 6).value();
      CHECK(txn.copies().empty());
    });
    CHECK(pool->abort(step).value() == 1);
    CHECK(pool->num_tokens(longer) == 7);
    CHECK(pool->content_lost(longer));
    CHECK(!pool->content_lost(shorter));
    pool->check_invariants();
  }
}

TEST_CASE("cache_alloc.content_lost.a_fork_that_copied_gets_its_overwritten_block_back", "[cache_alloc]") {
  Fixture pool{kConfig, kOptions};
  const SeqId longer = sequence(pool, 7);
  const SeqId shorter = shorter_fork(pool, longer, 5);
  const BlockId both = pool->table(longer).blocks[1];
  const StepId step = sealed(pool, [&](auto& txn) {
    append(txn, pool, longer, 8);
    append(txn, pool, shorter, 6);
  });
  CHECK(pool->table(shorter).blocks[1] == both);
  CHECK(pool->abort(step).value() == 1);
  CHECK(pool->table(longer).blocks[1] == both);
  CHECK(pool->content_lost(longer));
  CHECK(!pool->content_lost(shorter));
}

TEST_CASE("cache_alloc.content_lost.new_tokens_behind_every_last_one_cost_nothing", "[cache_alloc]") {
  Fixture pool{kConfig, kOptions};
  const SeqId one = sequence(pool, 6);
  const SeqId two = shorter_fork(pool, one, 6);
  const SeqId gone = shorter_fork(pool, one, 5);
  const auto both_append = [&](std::int64_t num_tokens) {
    return sealed(pool, [&](auto& txn) {
      if (pool->alive(gone)) txn.release(gone).value();
      append(txn, pool, one, num_tokens);
      append(txn, pool, two, num_tokens);
    });
  };
  for (int round = 0; round < 3; ++round) {
    const StepId running = both_append(7);
    const StepId ahead = both_append(8);
    CHECK(pool->abort(ahead).value() == 0);
    const StepId again = both_append(8);
    CHECK(pool->abort(again).value() == 0);
    CHECK(pool->abort(running).value() == 0);
  }
  for (const SeqId seq : {one, two, gone}) CHECK(!pool->content_lost(seq));
  pool->check_invariants();
}

TEST_CASE("cache_alloc.content_lost.the_writer_may_be_a_later_step_or_gone", "[cache_alloc]") {
  for (const bool writer_ends : {false, true}) {
    CAPTURE(writer_ends);
    Fixture pool{kConfig, kOptions};
    const SeqId longer = sequence(pool, 7);
    const SeqId shorter = shorter_fork(pool, longer, 5);
    const StepId first = sealed(pool, [&](auto& txn) {
      txn.release(longer).value();
      if (writer_ends) txn.grow(shorter, 6).value();
    });
    if (writer_ends) {
      directly(pool, [&](auto& txn) { txn.release(shorter).value(); });
    } else {
      const StepId second = sealed(pool, [&](auto& txn) { txn.grow(shorter, 6).value(); });
      CHECK(pool->abort(second).value() == 0);
    }
    CHECK(pool->abort(first).value() == 1);
    CHECK(pool->content_lost(longer));
    pool->check_invariants();
  }
}

TEST_CASE("cache_alloc.content_lost.a_direct_commit_writes_behind_a_sealed_step", "[cache_alloc]") {
  Fixture pool{kConfig, kOptions};
  const SeqId longer = sequence(pool, 7);
  const SeqId shorter = shorter_fork(pool, longer, 6);
  const StepId first = sealed(pool, [&](auto& txn) { txn.release(longer).value(); });
  directly(pool, [&](auto& txn) { txn.make_writable(shorter, 5, 6).value(); });
  const StepId second = sealed(pool, [&](auto& txn) { txn.grow(shorter, 7).value(); });  // writes behind token 5
  pool->abort(second).value();
  pool->abort(first).value();
  CHECK(pool->content_lost(longer));
}

TEST_CASE("cache_alloc.content_lost.a_leaf_taken_over_costs_only_what_lies_behind_it", "[cache_alloc]") {
  for (const std::int64_t length : {6, 7}) {
    CAPTURE(length);
    Fixture pool{kConfig, kOptions};
    const SeqId owner = sequence(pool, length);
    const Tokens tokens = tokens_from(0, 6);
    pool->publish(owner, {.tokens = tokens, .partial_tail = true}).value();
    const StepId step = sealed(pool, [&](auto& txn) {
      txn.release(owner).value();
      const SeqId next = txn.create().value();
      const auto shared = txn.share(next, pool->match({.tokens = tokens_from(0, 8)})).value();
      REQUIRE(shared.num_tokens == 6);
      REQUIRE(shared.copied_tokens == 0);
      append(txn, pool, next, 8);
    });
    CHECK(pool->abort(step).value() == (length == 7 ? 1 : 0));
    CHECK(pool->content_lost(owner) == (length == 7));
    pool->check_invariants();
  }
}

TEST_CASE("cache_alloc.content_lost.own_tokens_written_anew_are_lost", "[cache_alloc]") {
  struct Case {
    std::int64_t cut;  ///< length before new tokens are written up to the old one; 8 = rewrite without a cut
    bool in_flight;    ///< an older step keeps released blocks from being used again
    bool lost;
  };
  for (const Case& c : {Case{8, false, true}, Case{6, false, true}, Case{6, true, true}, Case{4, false, true}, Case{4, true, false}}) {
    CAPTURE(c.cut, c.in_flight);
    Fixture pool{kConfig, kOptions};
    const SeqId seq = sequence(pool, 8);
    if (c.in_flight) sealed(pool, [&](auto&) {});
    const StepId step = sealed(pool, [&](auto& txn) {
      txn.truncate(seq, c.cut).value();
      if (c.cut < 8) append(txn, pool, seq, 8);
      if (c.cut == 8) txn.make_writable(seq, 3, 5).value();
    });
    CHECK(pool->abort(step).value() == (c.lost ? 1 : 0));
    CHECK(pool->num_tokens(seq) == 8);
    CHECK(pool->content_lost(seq) == c.lost);
    directly(pool, [&](auto& txn) { txn.truncate(seq, 0).value(); });
    CHECK(!pool->content_lost(seq));
  }
}

TEST_CASE("cache_alloc.content_lost.only_writes_that_were_launched_count", "[cache_alloc]") {
  Fixture pool{kConfig, kOptions};
  const SeqId longer = sequence(pool, 7);
  const SeqId shorter = shorter_fork(pool, longer, 5);
  const StepId step = sealed(pool, [&](auto& txn) {
    txn.release(longer).value();
    const Savepoint before = txn.mark();
    append(txn, pool, shorter, 7);
    txn.rollback_to(before);
  });
  CHECK(pool->abort(step).value() == 0);

  const StepId written = sealed(pool, [&](auto& txn) {
    txn.release(longer).value();
    append(txn, pool, shorter, 7);
  });
  pool->commit(written).value();
  const StepId next = sealed(pool, [&](auto& txn) { append(txn, pool, shorter, 8); });
  CHECK(pool->abort(next).value() == 0);  // what a committed step wrote is what the sequence holds
  CHECK(pool->num_tokens(shorter) == 7);
}

TEST_CASE("cache_alloc.content_lost.a_reset_makes_a_shared_prefix_writable", "[cache_alloc]") {
  Fixture pool{kConfig, kOptions};
  const SeqId one = pool.run(tokens_from(0, 8));
  const SeqId two = pool.run(tokens_from(0, 8));
  REQUIRE(pool->table(one).blocks[0] == pool->table(two).blocks[0]);
  const StepId first = sealed(pool, [&](auto& txn) { txn.release(one).value(); });
  pool->reset(CacheReset::kDetach).value();
  const StepId second = sealed(pool, [&](auto& txn) {
    txn.make_writable(two, 2, 3).value();
    CHECK(txn.copies().empty());
  });
  CHECK(pool->abort(second).value() == 1);
  CHECK(pool->content_lost(two));
  CHECK(pool->abort(first).value() == 1);
  CHECK(pool->content_lost(one));
}
