// What a prefix hit may and may not be, one small example each.
#include "cache_alloc/allocator_fixture.hpp"
#include "support/catch.hpp"

#include <string_view>

using namespace kvpage;
using namespace kvpage_test;

namespace {

using Allocator = BlockAllocator<>;
const Allocator::IndexOptions kOptions{SipSecret::fixed(11, 22)};

/// Every content has the same key: only comparisons tell them apart.
struct ConstantHash {
  PrefixKey operator()(const PrefixKey&, std::uint32_t, std::span<const TokenId>) const { return {}; }
};
using Colliding = BlockAllocator<PrefixIndex<ConstantHash>>;

/// `head`, then `tail`.
Tokens joined(Tokens head, const Tokens& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

NamespaceField field(NamespaceFieldType type, std::string_view text) { return {type, std::as_bytes(std::span{text})}; }

}  // namespace

TEST_CASE("cache_alloc.prefix.namespaces_differ_unless_all_fields_are_equal", "[cache_alloc]") {
  using Type = NamespaceFieldType;
  using std::string_view_literals::operator""sv;
  const std::vector<std::vector<NamespaceField>> all{{},
      {field(Type::kSalt, "a"), field(Type::kAdapter, "b")},
      {field(Type::kSalt, "ab")},
      {field(Type::kAdapter, "ab")},
      {field(Type::kSalt, "a\3\0b"sv)},  // the bytes of the first pair, one behind the other
      {field(Type::kSalt, "a\0"sv)},
      {field(Type::kSalt, "a")},
      {field(Type::kSalt, "")}};
  AllocatorFixture<Allocator> pool{{.num_blocks = 8, .block_size = 4}, kOptions};
  for (std::uint32_t id = 0; id < all.size(); ++id) CHECK(pool->intern(all[id]).value().value == id);
  for (std::uint32_t id = 0; id < all.size(); ++id) CHECK(pool->intern(all[id]).value().value == id);

  const Tokens prompt = tokens_from(0, 4);
  auto txn = pool->begin();
  const SeqId seq = txn->create(NamespaceId{1}).value();
  txn->grow(seq, 4).value();
  txn->commit().value();
  pool->publish(seq, {.tokens = prompt}).value();
  for (std::uint32_t id = 0; id < all.size(); ++id) {
    CHECK(pool->match({.name_space = NamespaceId{id}, .tokens = prompt}).num_tokens == (id == 1 ? 4 : 0));
  }
}

TEMPLATE_TEST_CASE("cache_alloc.prefix.another_picture_is_another_block", "[cache_alloc]", SipHash13, ConstantHash) {
  using Pictures = BlockAllocator<PrefixIndex<TestType>>;
  TestType hash = [] {
    if constexpr (std::is_same_v<TestType, SipHash13>) return SipHash13{SipSecret::fixed(1, 2)};
    else return ConstantHash{};
  }();
  AllocatorFixture<Pictures> pool{{.num_blocks = 8, .block_size = 4}, typename Pictures::IndexOptions{hash}};
  const Tokens prompt = tokens_from(0, 12);
  const SeqId seq = pool.compute(12);
  const BlockExtra picture[] = {{1, 77}};
  const BlockExtra other[] = {{1, 78}};
  const BlockExtra elsewhere[] = {{0, 77}};
  pool->publish(seq, {.tokens = prompt, .extras = picture}).value();
  CHECK(pool->match({.tokens = prompt, .extras = picture}).num_tokens == 12);
  CHECK(pool->match({.tokens = prompt, .extras = other}).num_tokens == 4);
  CHECK(pool->match({.tokens = prompt, .extras = elsewhere}).num_tokens == 0);
  CHECK(pool->match({.tokens = prompt}).num_tokens == 4);
  const std::span<const TokenId> part = std::span{prompt}.first(7);  // a part of the picture's block
  CHECK(pool->match({.tokens = part, .extras = picture}).num_tokens == 7);
  CHECK(pool->match({.tokens = part, .extras = other}).num_tokens == 4);
}

TEST_CASE("cache_alloc.prefix.equal_tokens_behind_other_tokens_are_no_hit", "[cache_alloc]") {
  AllocatorFixture<Colliding> pool{{.num_blocks = 8, .block_size = 4, .max_seqs = 2}, Colliding::IndexOptions{ConstantHash{}}};
  const Tokens tail = tokens_from(50, 4);
  static_cast<void>(pool.run(joined(tokens_from(0, 4), tail)));
  static_cast<void>(pool.run(tokens_from(20, 4)));
  CHECK(pool.hit(joined(tokens_from(0, 4), tail)) == 8);
  CHECK(pool.hit(joined(tokens_from(20, 4), tail)) == 4);
  CHECK(pool.hit(tail) == 0);
}

TEST_CASE("cache_alloc.prefix.a_partial_hit_is_the_longest_common_start", "[cache_alloc]") {
  const std::int64_t granule = GENERATE(1, 2);
  Allocator::IndexOptions options = kOptions;
  options.token_granule = granule;
  AllocatorFixture<Allocator> pool{{.num_blocks = 12, .block_size = 4, .max_seqs = 4}, options};
  const Tokens head = tokens_from(0, 4);
  static_cast<void>(pool.run(joined(head, Tokens{10, 11, 12, 13})));
  static_cast<void>(pool.run(joined(head, Tokens{10, 11, 12, 23})));
  static_cast<void>(pool.run(joined(head, Tokens{10, 31, 32, 33})));
  for (std::int64_t common = 0; common < 4; ++common) {
    Tokens prompt = joined(head, Tokens{10, 11, 12, 13});
    for (std::size_t i = 4 + static_cast<std::size_t>(common); i < 8; ++i) prompt[i] = 99;
    const std::int64_t expected = common / granule * granule;
    const PrefixHit hit = pool->match({.tokens = prompt});
    CHECK(hit.num_tokens == 4 + expected);
    auto txn = pool->begin();
    const SharedPrefix shared = txn->share(txn->create().value(), hit).value();
    CHECK(shared.num_tokens == 4 + expected);
    CHECK(shared.copied_tokens == expected);
    REQUIRE(txn->copies().size() == (expected > 0 ? 1u : 0u));
    if (expected > 0) CHECK(txn->copies()[0].num_tokens == expected);
    pool->check_invariants();
  }
}

TEST_CASE("cache_alloc.prefix.two_who_compute_one_prompt_end_on_the_same_blocks", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 8, .block_size = 4, .max_seqs = 2}, kOptions};
  const Tokens prompt = tokens_from(0, 8);
  const SeqId first = pool.compute(8);
  const SeqId second = pool.compute(8);
  pool->publish(first, {.tokens = prompt}).value();
  pool->publish(second, {.tokens = prompt}).value();
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(pool->table(first).blocks[i] == pool->table(second).blocks[i]);
    CHECK(pool->ref_count(pool->table(first).blocks[i]) == 2);
  }
  CHECK(pool->capacity().used == 2);
  CHECK(pool->capacity().clean == 6);
  pool->check_invariants();
}

TEST_CASE("cache_alloc.prefix.a_hit_is_stale_when_its_block_holds_other_content", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 1, .block_size = 4, .max_seqs = 2}, kOptions};
  pool.end(pool.run(tokens_from(0, 4)));
  const PrefixHit hit = pool->match({.tokens = tokens_from(0, 4)});
  REQUIRE(hit.num_tokens == 4);
  pool.end(pool.run(tokens_from(100, 4)));  // the same block, the same node
  auto txn = pool->begin();
  const auto shared = txn->share(txn->create().value(), hit);
  REQUIRE(!shared);
  CHECK(shared.error().kind == CacheRefusalKind::kStaleHit);
}

TEST_CASE("cache_alloc.prefix.the_part_of_a_hit_is_left_out_when_its_block_holds_other_content", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 3, .block_size = 4, .max_seqs = 2}, kOptions};
  pool.end(pool.run(tokens_from(0, 8)));
  const PrefixHit hit = pool->match({.tokens = tokens_from(0, 6)});
  REQUIRE(hit.num_tokens == 6);
  pool.end(pool.run(tokens_from(100, 8)));  // the clean block and the block of tokens 4..7
  auto txn = pool->begin();
  const SharedPrefix shared = txn->share(txn->create().value(), hit).value();
  CHECK(shared.num_tokens == 4);
  CHECK(txn->copies().empty());
}

TEST_CASE("cache_alloc.prefix.a_block_taken_by_the_open_plan_is_not_found", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 2, .block_size = 4}, kOptions};
  pool.end(pool.run(tokens_from(0, 8)));
  auto txn = pool->begin();
  for (const std::int64_t left : {4, 0}) {
    REQUIRE(txn->allocate_block());
    CHECK(pool.hit(tokens_from(0, 8)) == left);
    pool->check_invariants();
  }
  txn->abort();
  CHECK(pool.hit(tokens_from(0, 8)) == 8);
}

TEST_CASE("cache_alloc.prefix.a_partial_leaf_without_holder_is_taken_over_and_found_no_more", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 4, .block_size = 4, .max_seqs = 2}, kOptions};
  const Tokens turn = tokens_from(0, 6);
  const SeqId seq = pool.run(turn);
  pool->publish(seq, {.tokens = turn, .partial_tail = true}).value();
  const BlockId leaf = pool->table(seq).blocks[1];
  pool.end(seq);
  REQUIRE(pool.hit(turn) == 6);
  auto txn = pool->begin();
  const SeqId next = txn->create().value();
  const SharedPrefix shared = txn->share(next, pool->match({.tokens = turn})).value();
  CHECK(shared.num_tokens == 6);
  CHECK(shared.copied_tokens == 0);
  CHECK(pool->table(next).blocks[1] == leaf);
  CHECK(pool.hit(turn) == 4);  // the new owner writes in it
  pool->commit(txn->seal().value()).value();
  CHECK(pool.hit(turn) == 4);
  pool->check_invariants();
}

// The source of a copy stays held while the copy runs, so it is cached after the block that it builds on.
TEST_CASE("bug.B10.a_leaf_goes_first_even_when_it_was_cached_last", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 6, .block_size = 4, .max_seqs = 2}, kOptions};
  const Tokens prompt = tokens_from(0, 8);
  const SeqId seq = pool.run(prompt);
  auto txn = pool->begin();
  const SeqId other = txn->create().value();
  CHECK(txn->share(other, pool->match({.tokens = tokens_from(0, 6)})).value().copied_tokens == 2);
  txn->release(other).value();
  txn->release(seq).value();
  pool->commit(txn->seal().value()).value();
  REQUIRE(pool->capacity().cached == 2);
  REQUIRE(pool.hit(prompt) == 8);
  pool.use_up(5);
  CHECK(pool.hit(prompt) == 4);
}

TEST_CASE("cache_alloc.prefix.tokens_of_a_step_that_may_be_aborted_are_not_published", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool({.num_blocks = 8, .block_size = 4, .max_seqs = 2}, kOptions);
  const Tokens tokens = tokens_from(1, 12);
  const SeqId seq = pool.compute(4);
  auto txn = pool->begin();
  txn->grow(seq, 8).value();
  const auto first = txn->seal().value();
  auto next = pool->begin();
  next->grow(seq, 12).value();
  const SeqId fresh = next->create().value();
  next->grow(fresh, 4).value();
  const auto second = next->seal().value();
  CHECK(pool->publish(seq, {.tokens = tokens}).error() == CacheRefusal{CacheRefusalKind::kBadLength, 12, 4});
  CHECK(pool->publish(fresh, {.tokens = std::span{tokens}.first(4)}).error() == CacheRefusal{CacheRefusalKind::kBadLength, 4, 0});
  CHECK(pool->publish(seq, {.tokens = std::span{tokens}.first(4)}).has_value());
  pool->commit(first).value();
  CHECK(pool->publish(seq, {.tokens = tokens}).error() == CacheRefusal{CacheRefusalKind::kBadLength, 12, 8});
  CHECK(pool->publish(seq, {.tokens = std::span{tokens}.first(8)}).has_value());
  pool->abort(second).value();
  CHECK(pool->match({.tokens = tokens}).num_tokens == 8);
  pool->check_invariants();
}

TEST_CASE("cache_alloc.prefix.an_unknown_namespace_is_no_node", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool({.num_blocks = 8, .block_size = 4, .max_seqs = 2}, kOptions);
  const Tokens tokens = tokens_from(1, 8);
  pool.run(tokens);
  for (std::uint32_t id = 1; id < 300; ++id) {
    const auto hit = pool->match({.name_space = NamespaceId{id}, .tokens = tokens});
    CHECK(hit.num_tokens == 0);
    CHECK_FALSE(pool->index().tree().alive(hit.node, hit.generation));
  }
}

TEST_CASE("cache_alloc.prefix.a_tail_within_published_blocks_adds_nothing", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 8, .block_size = 4}, kOptions};
  const SeqId seq = pool.run(tokens_from(0, 8));
  pool->publish(seq, {.tokens = tokens_from(0, 7), .partial_tail = true}).value();
  pool->check_invariants();
  Tokens repeated = tokens_from(0, 8);
  repeated.insert(repeated.end(), {4, 5, 6});
  CHECK(pool.hit(repeated) == 8);
  CHECK(pool.hit(tokens_from(0, 8)) == 8);
}

TEST_CASE("cache_alloc.prefix.one_token_of_a_prompt_is_always_computed", "[cache_alloc]") {
  AllocatorFixture<Allocator> pool{{.num_blocks = 8, .block_size = 4}, kOptions};
  pool.run(tokens_from(0, 8));
  const PrefixHit whole = pool->match({.tokens = tokens_from(0, 8)});
  CHECK((whole.num_tokens == 8 && whole.num_computed(8) == 7 && whole.query_only_last(8)));
  const PrefixHit start = pool->match({.tokens = tokens_from(0, 9)});
  CHECK((start.num_tokens == 8 && start.num_computed(9) == 8 && !start.query_only_last(9)));
}
