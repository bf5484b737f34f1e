// Events: what each kind says, that they alone give every reference count, and that a dropped transaction sends none.
#include "cache_alloc/allocator_fixture.hpp"
#include "support/catch.hpp"

#include <array>
#include <random>
#include <set>

namespace {

using namespace kvpage;
using namespace kvpage_test;

/// Appends to a vector of its owner's.
struct Recorder {
  static constexpr bool kEnabled = true;
  std::vector<CacheEvent>* events;
  void on_event(const CacheEvent& event) { events->push_back(event); }
};
using Allocator = BlockAllocator<PrefixIndex<>, Lru, Recorder>;
using Transaction = Allocator::Transaction;
using K = CacheEventKind;

/// An allocator whose events are read one operation at a time.
class Recorded {
 public:
  explicit Recorded(const BlockAllocatorConfig& config)
      : memory_(Allocator::required_bytes(config, kOptions)),
        allocator_(config, memory_, kOptions, Lru{}, Recorder{&events_}),
        refs_(static_cast<std::size_t>(config.num_blocks)) {}

  Allocator* operator->() { return &allocator_; }

  /// The events since the last call. Their kinds must be these, and they must lead to the allocator's reference counts.
  std::vector<CacheEvent> expect(const std::vector<K>& kinds) {
    std::vector<K> got;
    for (const CacheEvent& event : events_) got.push_back(event.kind);
    CHECK(got == kinds);
    if (got != kinds) throw std::runtime_error{"other events than expected"};
    follow();
    return std::exchange(events_, {});
  }
  /// The same for any kinds, which are added to `seen`.
  void expect_any(std::set<K>& seen) {
    for (const CacheEvent& event : events_) seen.insert(event.kind);
    follow();
    events_.clear();
  }
  [[nodiscard]] bool silent() const { return events_.empty(); }

  SeqId create(Transaction& txn, std::int64_t num_tokens) {
    const SeqId seq = txn.create().value();
    txn.grow(seq, num_tokens).value();
    return seq;
  }

 private:
  void follow() {
    for (const CacheEvent& event : events_) {
      if (event.kind == K::kAlloc || event.kind == K::kShare) ++refs_.at(event.block.value);
      if (event.kind == K::kUnshare || event.kind == K::kFree) --refs_.at(event.block.value);
      if (event.kind == K::kAlloc) REQUIRE(refs_[event.block.value] == 1);
      if (event.kind == K::kFree) REQUIRE(refs_[event.block.value] == 0);
    }
    for (std::uint32_t b = 0; b < refs_.size(); ++b) REQUIRE(refs_[b] == allocator_.ref_count(BlockId{b}));
  }

  static inline const PrefixIndexOptions<> kOptions{SipSecret::fixed(1, 2)};
  std::vector<CacheEvent> events_;
  std::vector<std::byte> memory_;
  Allocator allocator_;
  std::vector<std::int64_t> refs_;
};

BlockId block_of(Recorded& pool, SeqId seq, std::size_t i) { return pool->table(seq).blocks[i]; }

}  // namespace

TEST_CASE("cache_alloc.events.of_sequences_name_their_blocks_and_their_step", "[cache_alloc]") {
  Recorded pool{{.num_blocks = 4, .block_size = 2, .max_seqs = 2}};
  auto txn = pool->begin();
  const SeqId seq = pool.create(*txn, 3);
  const SeqId child = txn->fork(seq).value();
  CHECK(pool.silent());  // nothing happened yet
  const StepId step = txn->seal().value();
  auto events = pool.expect({K::kSeqStart, K::kAlloc, K::kAlloc, K::kSeqStart, K::kShare, K::kShare, K::kSeal});
  for (const CacheEvent& event : events) CHECK(event.step == step);
  for (std::size_t i = 0; i < 3; ++i) CHECK(events[i].seq == seq);
  for (std::size_t i = 3; i < 6; ++i) CHECK(events[i].seq == child);
  CHECK(events[0].block == kNoBlock);
  CHECK(events[1].block == block_of(pool, seq, 0));
  CHECK(events[5].block == block_of(pool, seq, 1));
  pool->commit(step).value();
  events = pool.expect({K::kCommit, K::kRetire});
  CHECK((events[0].step == step && events[1].step == step && events[0].block == kNoBlock));

  txn = pool->begin();
  txn->truncate(seq, 2).value();
  txn->release(child).value();
  txn->commit().value();
  events = pool.expect({K::kUnshare, K::kFree, K::kUnshare, K::kSeqEnd});
  CHECK((events[0].seq == seq && events[0].step == StepId{}));
  CHECK((events[1].seq == child && events[1].block == events[0].block));
  CHECK((events[3].seq == child && events[3].block == kNoBlock));
}

TEST_CASE("cache_alloc.events.name_the_sequence_in_the_last_group_too", "[cache_alloc]") {
  Recorded pool{{.num_blocks = 8, .block_size = 2, .max_seqs = 1, .num_groups = kMaxCacheGroups}};
  for (int i = 0; i < 5; ++i) {  // in one slot
    auto txn = pool->begin();
    const SeqId seq = pool.create(*txn, 4);
    txn->commit().value();
    std::vector<K> begin(1 + 2 * kMaxCacheGroups, K::kAlloc), end(1 + kMaxCacheGroups, K::kFree);
    begin.front() = K::kSeqStart, end.back() = K::kSeqEnd;
    for (const CacheEvent& event : pool.expect(begin)) CHECK(event.seq == seq);
    txn = pool->begin();
    txn->truncate(seq, 2).value();
    txn->commit().value();
    for (const CacheEvent& event : pool.expect(std::vector<K>(kMaxCacheGroups, K::kFree))) CHECK(event.seq == seq);
    txn = pool->begin();
    txn->release(seq).value();
    txn->commit().value();
    for (const CacheEvent& event : pool.expect(end)) CHECK(event.seq == seq);
  }
}

TEST_CASE("cache_alloc.events.of_hits_copies_and_evictions_name_what_they_are_about", "[cache_alloc]") {
  Recorded pool{{.num_blocks = 4, .block_size = 2, .max_seqs = 3}};
  const Tokens text = tokens_from(0, 4);
  auto txn = pool->begin();
  const SeqId first = pool.create(*txn, 4);
  const SeqId second = pool.create(*txn, 2);
  txn->commit().value();
  pool.expect({K::kSeqStart, K::kAlloc, K::kAlloc, K::kSeqStart, K::kAlloc});
  const BlockId own = block_of(pool, second, 0);
  pool->publish(first, {.tokens = text}).value();
  auto events = pool.expect({K::kPublish, K::kPublish});
  CHECK((events[1].block == block_of(pool, first, 1) && events[1].seq == first && events[1].num_tokens == 2));
  CHECK((events[0].content_key != 0 && events[1].content_key != 0 && events[0].content_key != events[1].content_key));
  const std::uint64_t key = events[0].content_key;
  pool->publish(second, {.tokens = std::span{text}.first(2)}).value();
  events = pool.expect({K::kShare, K::kFree, K::kAdopt});
  CHECK((events[2].block == block_of(pool, first, 0) && events[2].other == own && events[2].seq == second));
  CHECK(events[2].content_key == key);

  txn = pool->begin();
  const SeqId third = txn->create().value();
  txn->share(third, pool->match({.tokens = Tokens{0, 1, 2, 99}})).value();  // a block, and half of the next one
  const BlockId target = block_of(pool, third, 1);
  const StepId step = txn->seal().value();
  events = pool.expect({K::kSeqStart, K::kShare, K::kHit, K::kShare, K::kAlloc, K::kCopy, K::kSeal});
  CHECK((events[2].num_tokens == 2 && events[2].seq == third && events[2].block == kNoBlock));
  CHECK((events[5].block == target && events[5].other == block_of(pool, first, 1) && events[5].num_tokens == 1));
  pool->commit(step).value();
  events = pool.expect({K::kCommit, K::kRetire, K::kUnshare});
  CHECK((events[2].block == block_of(pool, first, 1) && events[2].seq == SeqId{}));

  const BlockId tail = block_of(pool, first, 1);
  txn = pool->begin();
  txn->truncate(first, 2).value();
  CHECK(pool->capacity().available() == 2);
  txn->grow(third, 8).value();  // the clean block, then the cached one
  txn->commit().value();
  events = pool.expect({K::kFree, K::kAlloc, K::kEvict, K::kAlloc});
  CHECK((events[2].block == tail && events[3].block == tail && events[2].content_key != 0));
  CHECK((events[3].seq == third && events[0].seq == first));
}

TEST_CASE("cache_alloc.events.of_pins_resets_and_aborts_name_what_they_are_about", "[cache_alloc]") {
  Recorded pool{{.num_blocks = 6, .block_size = 2, .max_seqs = 2}};
  const Tokens text = tokens_from(0, 3);
  auto txn = pool->begin();
  const SeqId seq = pool.create(*txn, 3);
  txn->commit().value();
  pool->publish(seq, {.tokens = text, .partial_tail = true}).value();
  auto events = pool.expect({K::kSeqStart, K::kAlloc, K::kAlloc, K::kPublish, K::kPublish});
  CHECK(events[4].num_tokens == 1);  // a partial leaf
  const PinId pin = pool->pin(pool->match({.tokens = text})).value();
  events = pool.expect({K::kShare, K::kPin});
  CHECK((events[0].seq == SeqId{} && events[1].num_tokens == 2 && events[1].content_key != 0 && events[1].block == kNoBlock));
  pool->unpin(pin).value();
  events = pool.expect({K::kUnshare, K::kUnpin});
  CHECK((events[1].num_tokens == 2 && events[1].content_key != 0));

  txn = pool->begin();
  txn->release(seq).value();
  const SeqId heir = txn->create().value();
  txn->share(heir, pool->match({.tokens = text})).value();  // takes the partial leaf over
  const BlockId leaf = block_of(pool, heir, 1);
  const StepId step = txn->seal().value();
  events = pool.expect({K::kFree, K::kFree, K::kSeqEnd, K::kSeqStart, K::kShare, K::kHit, K::kShare, K::kHide, K::kSeal});
  CHECK((events[7].block == leaf && events[6].block == leaf && events[6].seq == heir));
  pool->abort(step).value();
  events = pool.expect({K::kAbort, K::kFree, K::kFree, K::kSeqEnd, K::kSeqStart, K::kShare, K::kShare});
  CHECK((events[0].step == step && events[1].step == StepId{} && events[3].seq == heir && events[4].seq == seq));
  pool->reset(CacheReset::kDetach).value();
  events = pool.expect({K::kReset});
  CHECK((events[0].block == kNoBlock && events[0].step == StepId{}));
}

TEST_CASE("cache_alloc.events.of_what_was_dropped_or_rolled_back_are_not_sent", "[cache_alloc]") {
  Recorded pool{{.num_blocks = 6, .block_size = 2, .max_seqs = 3}};
  auto txn = pool->begin();
  const SeqId seq = pool.create(*txn, 5);
  txn->commit().value();
  pool->publish(seq, {.tokens = tokens_from(0, 5)}).value();
  std::set<K> seen;
  pool.expect_any(seen);
  txn = pool->begin();
  const Savepoint mark = txn->mark();
  const SeqId child = txn->fork(seq).value();
  txn->make_writable(child, 4, 5).value();
  txn->release(seq).value();
  static_cast<void>(txn->allocate_block().value());
  txn->abort();
  CHECK(pool.silent());
  txn = pool->begin();
  CHECK(!txn->grow(seq, 14));  // refused
  const Savepoint again = txn->mark();
  static_cast<void>(txn->fork(seq).value());
  txn->rollback_to(again);
  txn->grow(seq, 7).value();
  txn->commit().value();
  pool.expect({K::kAlloc});
  static_cast<void>(mark);
}

TEST_CASE("cache_alloc.events.alone_give_every_reference_count", "[cache_alloc]") {
  std::mt19937 rng{7};
  Recorded pool{{.num_blocks = 9, .block_size = 2, .max_seqs = 4}};
  std::vector<SeqId> live;
  std::set<K> seen;
  for (int round = 0; round < 5'000; ++round) {
    auto txn = pool->begin();
    const std::int64_t length = 1 + static_cast<std::int64_t>(rng() % 7);
    if (live.size() < 3) {
      const SeqId seq = txn->create().value();
      const Tokens text = tokens_from(0, static_cast<std::size_t>(length));
      if (rng() % 4 != 0) static_cast<void>(txn->share(seq, pool->match({.tokens = text})).value());
      static_cast<void>(txn->grow(seq, length).has_value());
      live.push_back(seq);
    } else {
      const std::size_t at = rng() % live.size();
      const bool forked = rng() % 2 == 0;
      if (forked) live.push_back(txn->fork(live[at]).value());
      static_cast<void>(txn->make_writable(live[at], 0, pool->num_tokens(live[at])).has_value());
      txn->release(live[at]).value();
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
    const StepId step = txn->seal().value();
    pool.expect_any(seen);
    pool->commit(step).value();
    pool.expect_any(seen);
    const SeqId seq = live[rng() % live.size()];
    pool->publish(seq, {.tokens = tokens_from(0, static_cast<std::size_t>(pool->num_tokens(seq))), .partial_tail = rng() % 2 == 0}).value();
    pool.expect_any(seen);
  }
  for (const K kind : {K::kAlloc, K::kShare, K::kUnshare, K::kFree, K::kCopy, K::kHit, K::kPublish, K::kAdopt, K::kHide, K::kEvict}) {
    INFO("kind " << static_cast<int>(kind));
    CHECK(seen.contains(kind));
  }
}

TEST_CASE("cache_alloc.events.cost_no_byte_when_nobody_listens", "[cache_alloc]") {
  using Silent = BlockAllocator<PrefixIndex<>, Lru, NoEvents>;
  static_assert(std::is_empty_v<NoEvents> && sizeof(Silent) < sizeof(Allocator));
  const BlockAllocatorConfig config{.num_blocks = 64, .max_seqs = 4};
  const PrefixIndexOptions<> options{SipSecret::fixed(1, 2)};
  CHECK(Silent::required_bytes(config, options) == Allocator::required_bytes(config, options));
}
