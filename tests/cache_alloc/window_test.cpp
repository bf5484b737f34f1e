// Sliding-window groups: what is released, what stays, and hits that need only the window.
#include "cache_alloc/allocator_fixture.hpp"
#include "cache_alloc/window_runner.hpp"
#include "support/catch.hpp"

#include <random>

using namespace kvpage;
using namespace kvpage_test;

namespace {
using Allocator = BlockAllocator<>;
const Allocator::IndexOptions kOptions{SipSecret::fixed(11, 22)};
}  // namespace

TEST_CASE("bug.B35.a_block_goes_when_its_last_token_leaves_the_window", "[cache_alloc]") {
  constexpr std::int64_t kWindow = 8;
  constexpr std::int64_t kBlock = 4;
  for (std::int64_t length = 6; length <= 20; ++length) {
    AllocatorFixture<Allocator> pool{{.num_blocks = 16, .block_size = kBlock, .window_tokens = {kWindow}}, kOptions};
    auto txn = pool->begin();
    const SeqId seq = txn->create().value();
    txn->grow(seq, length).value();
    for (std::int64_t i = 0; i <= length; ++i) {
      txn->release_before(seq, 0, i).value();
      const BlockTable table = pool->table(seq);
      for (std::int64_t b = 0; b < static_cast<std::int64_t>(table.blocks.size()); ++b) {
        const bool gone = (b + 1) * kBlock - 1 < i - kWindow + 1;
        CHECK((table.blocks[static_cast<std::size_t>(b)] == kNoBlock) == gone);
      }
      pool->check_invariants();
    }
    const std::uint64_t now = pool->digest();
    const Savepoint mark = txn->mark();
    txn->release(seq).value();
    txn->rollback_to(mark);
    CHECK(pool->digest() == now);
  }
}

TEST_CASE("cache_alloc.window.a_cut_leaves_what_the_next_token_looks_back_at", "[cache_alloc]") {
  // What drafts are rolled back with: allowed exactly when every key that the next token sees is still there.
  std::int64_t allowed = 0, refused = 0;
  for (const std::int64_t groups : {1, 2}) {
    for (std::int64_t window = 2; window <= 9; ++window) {
      for (std::int64_t length = 1; length <= 24; ++length) {
        for (std::int64_t released = 0; released <= length; ++released) {
          BlockAllocatorConfig config{.num_blocks = 16, .block_size = 4, .num_groups = groups};
          config.window_tokens[static_cast<std::size_t>(groups - 1)] = window;
          AllocatorFixture<Allocator> pool{config, kOptions};
          auto txn = pool->begin();
          const SeqId seq = txn->create().value();
          txn->grow(seq, length).value();
          txn->release_before(seq, groups - 1, released).value();
          const BlockTable table = pool->table(seq, groups - 1);
          const auto live = [&](std::int64_t token) { return table.blocks[static_cast<std::size_t>(token / 4)] != kNoBlock; };
          for (std::int64_t end = 0; end < length; ++end) {
            bool all = true;
            for (std::int64_t t = std::max<std::int64_t>(0, end - window + 1); t < end; ++t) all = all && live(t);
            const Savepoint mark = txn->mark();
            const auto cut = txn->truncate(seq, end);
            INFO("window " << window << ", " << length << " tokens, released before " << released << ", cut to " << end);
            REQUIRE(cut.has_value() == (all || end == 0));
            if (!cut) CHECK(cut.error() == CacheRefusal{CacheRefusalKind::kBadLength, end, table.first_live * 4});
            ++(cut ? allowed : refused);
            txn->rollback_to(mark);
          }
        }
      }
    }
  }
  CHECK((allowed > 1000 && refused > 1000));
}

TEST_CASE("cache_alloc.window.tables_have_one_to_four_groups", "[cache_alloc]") {
  for (std::int64_t groups = 0; groups <= 5; ++groups) {
    const BlockAllocatorConfig config{.num_blocks = 8, .num_groups = groups};
    if (groups == 0 || groups == 5) {
      CHECK_THROWS_AS(config.with_defaults(), ConfigError);
    } else {
      CHECK(config.with_defaults().num_groups == groups);
    }
  }
}

TEST_CASE("cache_alloc.window.hits_need_the_window_only", "[cache_alloc]") {
  // Group 0 full, group 1 a window of 8: a hit of h tokens needs window blocks over [h-7, h).
  AllocatorFixture<Allocator> pool{{.num_blocks = 32, .block_size = 4, .max_seqs = 2, .num_groups = 2, .window_tokens = {0, 8}}, kOptions};
  const Tokens prompt = tokens_from(0, 24);
  const SeqId seq = pool.run(prompt);
  auto txn = pool->begin();
  txn->release_before(seq, 1, 24).value();
  const SeqId next = txn->create().value();
  const SharedPrefix shared = txn->share(next, pool->match({.tokens = prompt})).value();
  CHECK(shared.num_tokens == 24);
  CHECK(pool->table(next, 0).first_live == 0);
  CHECK(pool->table(next, 1).first_live == 4);  // (24 - 7) / 4
  CHECK(pool->table(next, 1).blocks[3] == kNoBlock);
  pool->check_invariants();
  txn->commit().value();
  pool->check_invariants();
  pool.end(seq);
  pool.end(next);
  pool->check_invariants();
  CHECK(pool->capacity().available() == 32);
}

TEST_CASE("cache_alloc.window.a_refused_release_names_both_numbers_and_changes_nothing", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 16, .block_size = 4, .max_seqs = 2, .num_groups = 2, .window_tokens = {0, 6}}, kOptions};
  const SeqId ended = pool.compute(4);
  pool.end(ended);
  const SeqId seq = pool.compute(14);
  auto txn = pool->begin();
  const std::uint64_t before = pool->digest();
  using Kind = CacheRefusalKind;
  CHECK(txn->release_before(seq, -1, 9).error() == CacheRefusal{Kind::kBadLength, 9, 14});
  CHECK(txn->release_before(seq, 2, 9).error() == CacheRefusal{Kind::kBadLength, 9, 14});
  CHECK(txn->release_before(seq, 1, -1).error() == CacheRefusal{Kind::kBadLength, -1, 14});
  CHECK(txn->release_before(seq, 1, 15).error() == CacheRefusal{Kind::kBadLength, 15, 14});
  CHECK(txn->release_before(ended, 1, 0).error().kind == Kind::kDeadSeq);
  CHECK(txn->release_before(seq, 0, 14));  // no window
  CHECK(txn->release_before(seq, 1, 8));   // token 3 is still seen
  CHECK(pool->digest() == before);
  CHECK(txn->release_before(seq, 1, 14));
  CHECK(pool->table(seq, 1).first_live == 2);
  CHECK(txn->truncate(seq, 12).error() == CacheRefusal{Kind::kBadLength, 12, 8});  // token 12 looks back at token 7
  CHECK(txn->truncate(seq, 13));
}

TEST_CASE("cache_alloc.window.every_operation_agrees_with_the_naive_lists", "[cache_alloc]") {
  Coverage coverage;
  std::uint64_t seed = 1;
  try {
    for (; seed <= 300; ++seed) {
      WindowRunner runner(seed, coverage);
      for (int i = 0; i < 100; ++i) runner.run_transaction();
      runner.drain();
    }
  } catch (const Mismatch& mismatch) {
    FAIL("seed " << seed << ": " << mismatch.what);
  }
  const char* const required[][2] = {{"create", "kNoSeqSlot"}, {"fork", "done"}, {"fork", "kNoSeqSlot"}, {"grow", "done"},
                                     {"grow", "kNoBlocks"}, {"grow", "kTableFull"}, {"grow", "kBadLength"}, {"truncate", "done"},
                                     {"truncate", "kBadLength"}, {"release", "done"}, {"release_before", "done"},
                                     {"release_before", "blocks free"}, {"release_before", "kBadLength"}};
  for (const auto& [op, outcome] : required) {
    INFO(op << " x " << outcome);
    CHECK(coverage[{op, outcome}] >= 300);
  }
}

TEST_CASE("cache_alloc.window.random_plans_abort_to_the_same_digest", "[cache_alloc]") {
  std::mt19937_64 rng{35};
  AllocatorFixture<Allocator> pool{{.num_blocks = 40, .block_size = 4, .max_seqs = 3, .num_groups = 2, .window_tokens = {0, 6}}, kOptions};
  std::vector<SeqId> live;
  std::vector<Tokens> texts;
  for (int round = 0; round < 2000; ++round) {
    if (live.size() < 3) {
      const Tokens text = tokens_from(static_cast<TokenId>(rng() % 2), 1 + rng() % 20);
      if (pool->capacity().available() < 12) pool->yield_pins(12).value();
      live.push_back(pool.run(text));
      texts.push_back(text);
    }
    const std::uint64_t before = pool->digest();
    auto txn = pool->begin();
    const std::size_t at = rng() % live.size();
    const SeqId seq = live[at];
    static_cast<void>(txn->grow(seq, pool->num_tokens(seq) + static_cast<std::int64_t>(rng() % 9)).has_value());
    static_cast<void>(txn->release_before(seq, 1, pool->num_tokens(seq)).has_value());
    static_cast<void>(txn->fork(seq).has_value());
    static_cast<void>(txn->truncate(seq, pool->num_tokens(seq) / 2).has_value());
    pool->check_invariants();
    if (rng() % 3 == 0) txn->release(seq).value();
    pool->check_invariants();
    txn->abort();
    REQUIRE(pool->digest() == before);
    pool.end(seq);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(at));
    pool->check_invariants();
  }
}
