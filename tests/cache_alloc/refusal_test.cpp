// Whatever runs out, and at whichever operation: a refusal says so, changes nothing, and the rest goes on.
#include "cache_alloc/allocator_fixture.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"

#include <map>
#include <optional>

namespace {

using namespace kvpage;
using namespace kvpage_test;
using Allocator = BlockAllocator<>;
using Transaction = Allocator::Transaction;

Allocator::IndexOptions options() {
  Allocator::IndexOptions options{SipSecret::fixed(1, 2)};
  options.max_namespaces = 1;
  return options;
}

/// More than the scenario needs.
BlockAllocatorConfig ample() {
  return {.num_blocks = 24, .block_size = 2, .max_seqs = 6, .max_blocks_per_seq = 8, .max_log_entries = 256, .max_copies = 8};
}

/// A day in the life of six sequences. Each operation has a transaction of its own; one that was refused leaves the rest to go on
/// without what it would have made.
class Scenario {
 public:
  static constexpr int kNumOperations = 22;

  explicit Scenario(Allocator& pool) : pool_(pool) {}

  /// Runs operation i; its refusal, or nothing. `starved`: first everything else in the pool is taken, in front of a savepoint.
  std::optional<CacheRefusal> run(int i, bool starved = false) {
    auto txn = pool_.begin();
    std::optional<CacheRefusal> refusal;
    if (starved) {
      const std::uint64_t before = pool_.digest();
      const Savepoint mark = txn->mark();
      while (txn->allocate_block()) continue;
      refusal = try_apply(*txn, i);
      txn->rollback_to(mark);
      unchanged_ = unchanged_ && pool_.digest() == before;
    }
    if (!refusal) refusal = try_apply(*txn, i);
    if (txn->copies().empty()) {
      txn->commit().value();
    } else {
      pool_.commit(txn->seal().value()).value();
    }
    if (i == 5) publish(0);
    if (i == 11) publish(3);
    pool_.check_invariants();
    return refusal;
  }
  /// True when no refused operation changed anything.
  [[nodiscard]] bool unchanged() const noexcept { return unchanged_; }

  /// Ends everything; a sequence too long for the undo log goes block by block.
  void drain() {
    for (const SeqId seq : seqs_) {
      while (pool_.alive(seq)) {
        auto txn = pool_.begin();
        if (!txn->release(seq)) txn->truncate(seq, std::max<std::int64_t>(0, pool_.num_tokens(seq) - pool_.config().block_size)).value();
        txn->commit().value();
      }
    }
    for (BlockRef& block : blocks_) {
      auto txn = pool_.begin();
      if (block.id() != kNoBlock) txn->free_block(std::move(block)).value();
      txn->commit().value();
    }
  }

 private:
  std::optional<CacheRefusal> try_apply(Transaction& txn, int i) {
    const std::uint64_t before = pool_.digest();
    const auto refusal = apply(txn, i);
    if (refusal) unchanged_ = unchanged_ && pool_.digest() == before;
    return refusal;
  }
  std::optional<CacheRefusal> apply(Transaction& txn, int i) {
    switch (i) {
      case 0: return create(txn, 0);
      case 1: return create(txn, 1);
      case 2: return grow(txn, 0, 7);
      case 3: return grow(txn, 1, 3);
      case 4: return block(txn, 0);
      case 5: return append(txn, 0, 2);
      case 6: return fork(txn, 0, 2);
      case 7: return append(txn, 2, 2);  // a copy of the half-filled block
      case 8: return create(txn, 3);
      case 9: return share(txn, 3, 9);
      case 10: return create(txn, 4);
      case 11: return append(txn, 3, 3);
      case 12: return share(txn, 4, 5);  // a copy of a part
      case 13: return fork(txn, 1, 5);
      case 14: return rewrite(txn, 5);
      case 15: return truncate(txn, 0, 3);
      case 16: return release(txn, 3);
      case 17: return grow(txn, 1, 12);
      case 18: return append(txn, 0, 1);
      case 19: return block(txn, 1);
      case 20: return grow(txn, 4, 13);
      default: return release(txn, 0);
    }
  }

  template <class T>
  static std::optional<CacheRefusal> refusal(const CacheResult<T>& result) {
    if (result) return std::nullopt;
    return result.error();
  }
  std::optional<CacheRefusal> create(Transaction& txn, std::size_t s) { return keep(txn.create(), s); }
  std::optional<CacheRefusal> fork(Transaction& txn, std::size_t parent, std::size_t s) {
    return pool_.alive(seqs_[parent]) ? keep(txn.fork(seqs_[parent]), s) : std::nullopt;
  }
  std::optional<CacheRefusal> keep(const CacheResult<SeqId>& seq, std::size_t s) {
    if (seq) seqs_[s] = *seq;
    return refusal(seq);
  }
  std::optional<CacheRefusal> grow(Transaction& txn, std::size_t s, std::int64_t num_tokens) {
    return pool_.alive(seqs_[s]) ? refusal(txn.grow(seqs_[s], num_tokens)) : std::nullopt;
  }
  /// Room and writable blocks, or neither.
  std::optional<CacheRefusal> append(Transaction& txn, std::size_t s, std::int64_t more) {
    if (!pool_.alive(seqs_[s])) return std::nullopt;
    const std::int64_t length = pool_.num_tokens(seqs_[s]);
    const Savepoint before = txn.mark();
    if (const auto grown = txn.grow(seqs_[s], length + more); !grown) return grown.error();
    const auto writable = txn.make_writable(seqs_[s], length, length + more);
    if (!writable) txn.rollback_to(before);
    return refusal(writable);
  }
  std::optional<CacheRefusal> rewrite(Transaction& txn, std::size_t s) {
    return pool_.alive(seqs_[s]) ? refusal(txn.make_writable(seqs_[s], 0, pool_.num_tokens(seqs_[s]))) : std::nullopt;
  }
  std::optional<CacheRefusal> share(Transaction& txn, std::size_t s, std::size_t num_tokens) {
    if (!pool_.alive(seqs_[s])) return std::nullopt;
    return refusal(txn.share(seqs_[s], pool_.match({.tokens = std::span{text_}.first(num_tokens)})));
  }
  std::optional<CacheRefusal> truncate(Transaction& txn, std::size_t s, std::int64_t num_tokens) {
    if (!pool_.alive(seqs_[s]) || pool_.num_tokens(seqs_[s]) < num_tokens) return std::nullopt;
    return refusal(txn.truncate(seqs_[s], num_tokens));
  }
  std::optional<CacheRefusal> release(Transaction& txn, std::size_t s) {
    return pool_.alive(seqs_[s]) ? refusal(txn.release(seqs_[s])) : std::nullopt;
  }
  std::optional<CacheRefusal> block(Transaction& txn, std::size_t at) {
    auto ref = txn.allocate_block();
    if (!ref) return ref.error();
    blocks_[at] = *std::move(ref);
    return std::nullopt;
  }
  void publish(std::size_t s) {
    if (!pool_.alive(seqs_[s])) return;
    pool_.publish(seqs_[s], {.tokens = std::span{text_}.first(static_cast<std::size_t>(pool_.num_tokens(seqs_[s])))}).value();
  }

  Allocator& pool_;
  std::array<SeqId, 6> seqs_{};
  std::array<BlockRef, 2> blocks_;
  Tokens text_ = tokens_from(0, 20);
  bool unchanged_ = true;
};

/// All operations and the end; how often each kind of refusal came.
std::map<CacheRefusalKind, int> run_all(Allocator& pool, int starved = -1) {
  std::map<CacheRefusalKind, int> refusals;
  Scenario scenario{pool};
  for (int i = 0; i < Scenario::kNumOperations; ++i) {
    const auto refusal = scenario.run(i, i == starved);
    if (!refusal) continue;
    INFO("operation " << i << " refused: " << describe(refusal->kind));
    CHECK(refusal->need > refusal->available);
    ++refusals[refusal->kind];
  }
  CHECK(scenario.unchanged());
  scenario.drain();
  CHECK(pool.capacity().available() == pool.capacity().num_blocks);
  pool.check_invariants();
  return refusals;
}

/// Runs the scenario with the limit at `least` and ever higher, until nothing is refused any more. Returns that limit.
std::int64_t raise_until_enough(std::int64_t BlockAllocatorConfig::*limit, CacheRefusalKind kind, std::int64_t least = 1) {
  for (std::int64_t value = least;; ++value) {
    BlockAllocatorConfig config = ample();
    config.*limit = value;
    config.max_blocks_per_seq = std::min(config.max_blocks_per_seq, config.num_blocks);
    INFO("limit " << value);
    AllocatorFixture<Allocator> pool{config, options()};
    const auto refusals = run_all(pool.get());
    if (refusals.empty()) return value;
    CHECK(refusals.contains(kind));
    REQUIRE(value < ample().*limit);
  }
}

}  // namespace

TEST_CASE("cache_alloc.refusal.every_limit_is_refused_until_it_is_enough", "[cache_alloc]") {
  CHECK(raise_until_enough(&BlockAllocatorConfig::num_blocks, CacheRefusalKind::kNoBlocks) > 8);
  CHECK(raise_until_enough(&BlockAllocatorConfig::max_log_entries, CacheRefusalKind::kLogFull, 6) > 8);
  BlockAllocatorConfig small = ample();
  small.max_log_entries = 5;  // nothing would ever end
  CHECK_THROWS_AS(small.with_defaults(), ConfigError);
  CHECK(raise_until_enough(&BlockAllocatorConfig::max_copies, CacheRefusalKind::kCopiesFull) == 2);
  CHECK(raise_until_enough(&BlockAllocatorConfig::max_seqs, CacheRefusalKind::kNoSeqSlot) == 6);
  CHECK(raise_until_enough(&BlockAllocatorConfig::max_blocks_per_seq, CacheRefusalKind::kTableFull) == 7);
}

TEST_CASE("cache_alloc.refusal.limits_that_are_not_given_follow_from_the_others", "[cache_alloc]") {
  const BlockAllocatorConfig full = BlockAllocatorConfig{.num_blocks = 10, .block_size = 2, .max_seqs = 3, .num_groups = 2}.with_defaults();
  CHECK((full.max_blocks_per_seq == 10 && full.max_copies == 12));
  CHECK(full.max_log_entries == 6 * 10 + 6 * 2 * 10 + 16 * 3 + 256);  // the pool, a sequence's table in each group, sequences
}

TEST_CASE("cache_alloc.refusal.of_a_hit_or_a_namespace_names_both_numbers_and_changes_nothing", "[cache_alloc]") {
  Allocator::IndexOptions two = options();
  two.max_namespaces = 2;
  AllocatorFixture<Allocator> pool{ample(), two};
  const std::byte salt{1}, other{2};
  const NamespaceField field{NamespaceFieldType::kSalt, {&salt, 1}}, third{NamespaceFieldType::kSalt, {&other, 1}};
  const NamespaceId space = pool->intern({&field, 1}).value();
  const Tokens text = tokens_from(0, 9);
  const SeqId seq = pool.run(text);
  const PrefixHit hit = pool->match({.tokens = text});
  REQUIRE(hit.num_blocks == 4);
  auto txn = pool->begin();
  const SeqId foreign = txn->create(space).value();
  const std::uint64_t before = pool->digest();
  using Kind = CacheRefusalKind;
  CHECK(txn->share(seq, hit).error() == CacheRefusal{Kind::kNotEmpty, 0, 9});
  CHECK(txn->share(foreign, hit).error() == CacheRefusal{Kind::kBadNamespace, 0, 1});
  CHECK(txn->create(NamespaceId{2}).error() == CacheRefusal{Kind::kBadNamespace, 2, 2});
  CHECK(pool->intern({&third, 1}).error() == CacheRefusal{Kind::kNoNamespace, 3, 2});
  CHECK(txn->grow(foreign, 17).error() == CacheRefusal{Kind::kTableFull, 9, 8});
  CHECK(pool->digest() == before);
  CHECK(txn->grow(foreign, 16));
  CHECK(txn->share(txn->create().value(), hit).value().num_tokens == 8);
}

TEST_CASE("cache_alloc.refusal.of_the_kth_operation_harms_no_other", "[cache_alloc]") {
  std::vector<int> refused;
  for (int k = 0; k < Scenario::kNumOperations; ++k) {
    INFO("operation " << k << " finds no block");
    AllocatorFixture<Allocator> pool{ample(), options()};
    const auto refusals = run_all(pool.get(), k);
    if (!refusals.empty()) refused.push_back(k);
    CHECK(refusals.size() == (refusals.contains(CacheRefusalKind::kNoBlocks) ? 1u : 0u));
  }
  CHECK(refused == std::vector<int>{2, 3, 4, 5, 7, 11, 14, 17, 18, 19, 20});
}

TEST_CASE("cache_alloc.refusal.memory_that_is_a_byte_too_small_is_not_written", "[cache_alloc]") {
  std::vector<std::byte> memory(Allocator::required_bytes(ample(), options()) - 1, std::byte{0xA5});
  CHECK_THROWS_AS((Allocator{ample(), memory, options()}), ConfigError);
  CHECK(std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0xA5}; }));
}

TEST_CASE("cache_alloc.refusal.memory_at_any_address_is_enough", "[cache_alloc]") {
  const std::size_t required = Allocator::required_bytes(ample(), options());
  for (std::size_t offset = 0; offset <= 65; ++offset) {
    INFO("offset " << offset);
    std::vector<std::byte> memory(required + 128, std::byte{0xA5});
    const std::span<std::byte> given = std::span{memory}.subspan(offset, required);
    Allocator pool{ample(), given, options()};
    CHECK(run_all(pool).empty());
    CHECK(std::count(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(offset), std::byte{0xA5}) ==
          static_cast<std::ptrdiff_t>(offset));
    CHECK(std::count(memory.begin() + static_cast<std::ptrdiff_t>(offset + required), memory.end(), std::byte{0xA5}) ==
          static_cast<std::ptrdiff_t>(128 - offset));
  }
}

TEST_CASE("cache_alloc.refusal.nothing_is_allocated_after_construction", "[cache_alloc]") {
  BlockAllocatorConfig config = ample();
  config.num_blocks = 10;  // refusals and evictions included
  AllocatorFixture<Allocator> pool{config, options()};
  Scenario scenario{pool.get()};
  int num_refused = 0;
  const std::size_t before = allocated_bytes();
  for (int i = 0; i < Scenario::kNumOperations; ++i) num_refused += scenario.run(i).has_value() ? 1 : 0;
  scenario.drain();
  pool->reset(CacheReset::kIfIdle).value();
  const std::size_t after = allocated_bytes();
  CHECK(after == before);
  CHECK(before > 0);
  CHECK(num_refused > 0);
}
