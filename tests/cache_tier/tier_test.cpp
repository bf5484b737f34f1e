#include "cache_tier/flaky_store.hpp"
#include "cache_tier/tier_fixture.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"

namespace {

using namespace kvpage;
using namespace kvpage_test;
using Kind = TierRefusalKind;

constexpr OffloadTierConfig kConfig{.num_slots = 4, .page_bytes = 100, .block_size = 4, .layout_id = 1};

/// A tier over plain memory.
struct MemoryTier {
  explicit MemoryTier(const OffloadTierConfig& config = kConfig)
      : pages(static_cast<std::size_t>(config.num_slots * config.page_bytes)), tier(config, MemoryTierStore{pages}) {}
  std::vector<std::byte> pages;
  TierFixture<MemoryTierStore> tier;
};

std::vector<std::byte> page(int version) { return page_bytes(100, version); }

}  // namespace

TEST_CASE("cache_tier.tier.a_demoted_page_comes_back_bit_for_bit", "[cache_tier]") {
  MemoryTier memory;
  std::uint32_t slots[4];
  for (int n = 0; n < 4; ++n) slots[n] = memory.tier.store(n, 10 + n);
  for (int n = 3; n >= 0; --n) {
    CHECK(memory.tier.find(n) == slots[n]);
    CHECK(memory.tier.load(slots[n]).value() == page(10 + n));
    CHECK(memory.tier.load(slots[n]).value() == page(10 + n));  // it stays in the tier
  }
  memory.tier->check_invariants();
}

TEST_CASE("cache_tier.tier.content_is_key_tokens_and_group", "[cache_tier]") {
  MemoryTier memory;
  const Tokens tokens{1, 2, 3, 4};
  const Tokens others{1, 2, 3, 5};
  const auto slot = memory.tier->reserve({key_of(1), tokens, 0})->slot;
  memory.tier->demote(slot, page(0)).value();
  CHECK(memory.tier->find({key_of(1), tokens, 0}) == slot);
  CHECK(memory.tier->find({key_of(1), others, 0}) == kNoTierSlot);
  CHECK(memory.tier->find({key_of(1), tokens, 1}) == kNoTierSlot);
  CHECK(memory.tier->find({key_of(2), tokens, 0}) == kNoTierSlot);
  CHECK(memory.tier->find({key_of(1), std::span{tokens}.first(3), 0}) == kNoTierSlot);
  CHECK(memory.tier->reserve({PortableKey{}, tokens, 0}).error().kind == Kind::kBadContent);
}

TEST_CASE("cache_tier.tier.a_page_is_found_when_it_is_stored_and_not_before", "[cache_tier]") {
  MemoryTier memory;
  const Tokens tokens = tokens_from(1, 4);
  const auto slot = memory.tier->reserve({key_of(1), tokens})->slot;
  CHECK(memory.tier.find(1) == kNoTierSlot);
  CHECK(memory.tier->poll(slot) == TierTransfer::kPending);
  CHECK(memory.tier->hold(slot).error() == TierRefusal{Kind::kNotHeld, slot, 4});
  memory.tier->demote(slot, page(1)).value();
  CHECK(memory.tier.find(1) == slot);
  CHECK(memory.tier->poll(slot) == TierTransfer::kDone);
  CHECK(memory.tier->demote(slot, page(2)).error() == TierRefusal{Kind::kNotReserved, slot, 4});
  memory.tier->drop(slot).value();
  CHECK(memory.tier->poll(slot) == TierTransfer::kFailed);
  CHECK(memory.tier->capacity() == TierCapacity{4, 4, 0, 0});
}

TEST_CASE("cache_tier.tier.what_was_used_least_recently_is_replaced", "[cache_tier]") {
  MemoryTier memory;
  for (int n = 0; n < 4; ++n) memory.tier.store(n, n);
  memory.tier.load(memory.tier.find(0)).value();               // 0 is used now
  const Tokens known = tokens_from(1, 4);
  CHECK_FALSE(memory.tier->reserve({key_of(1), known})->needs_copy);  // and 1: it would have been demoted again
  memory.tier.store(4, 4);
  CHECK(memory.tier.find(2) == kNoTierSlot);
  memory.tier.store(5, 5);
  CHECK(memory.tier.find(3) == kNoTierSlot);
  for (const int kept : {0, 1, 4, 5}) CHECK(memory.tier.load(memory.tier.find(kept)).value() == page(kept));
}

TEST_CASE("cache_tier.tier.slots_in_flight_are_neither_replaced_nor_dropped", "[cache_tier]") {
  MemoryTier memory;
  std::uint32_t slots[4];
  for (int n = 0; n < 3; ++n) {
    slots[n] = memory.tier.store(n, n);
    memory.tier->hold(slots[n]).value();
  }
  const Tokens tokens = tokens_from(3, 4);
  slots[3] = memory.tier->reserve({key_of(3), tokens})->slot;
  CHECK(memory.tier->capacity() == TierCapacity{4, 0, 3, 1});
  const Tokens more = tokens_from(9, 4);
  CHECK(memory.tier->reserve({key_of(9), more}).error() == TierRefusal{Kind::kNoFreeSlot, 1, 0});
  for (const std::uint32_t slot : slots) CHECK(memory.tier->drop(slot).error() == TierRefusal{Kind::kInFlight, 0, 1});
  memory.tier->release(slots[1]).value();
  CHECK(memory.tier->reserve({key_of(9), more})->slot == slots[1]);
  CHECK(memory.tier->release(slots[1]).error().kind == Kind::kNotHeld);
  memory.tier->check_invariants();
}

TEST_CASE("cache_tier.tier.a_damaged_page_is_refused_to_all_holders_and_leaves", "[cache_tier]") {
  for (std::size_t damaged = 0; damaged < 100; ++damaged) {
    MemoryTier memory;
    const std::uint32_t slot = memory.tier.store(1, 1);
    memory.tier->hold(slot).value();
    memory.tier->hold(slot).value();
    memory.pages[slot * 100 + damaged] ^= static_cast<std::byte>(1u << damaged % 8);
    CHECK(memory.tier.load(slot).error() == TierRefusal{Kind::kCorrupt, 100, 0});
    CHECK(memory.tier.find(1) == kNoTierSlot);
    CHECK(memory.tier->capacity() == TierCapacity{4, 3, 0, 1});
    memory.pages[slot * 100 + damaged] ^= static_cast<std::byte>(1u << damaged % 8);
    auto target = page(0);
    CHECK(memory.tier->promote(slot, target).error().kind == Kind::kCorrupt);  // once lost, always lost
    memory.tier->release(slot).value();
    CHECK(memory.tier->capacity() == TierCapacity{4, 4, 0, 0});
    memory.tier->check_invariants();
  }
}

// Keys are public hashes, so somebody may look for many that start alike: they cost places, never a wrong page.
TEST_CASE("cache_tier.tier.keys_that_start_alike_are_refused_at_the_probe_limit", "[cache_tier]") {
  MemoryTier memory{{.num_slots = 128, .page_bytes = 100, .block_size = 4}};
  const Tokens tokens{1, 2, 3, 4};
  int refused = 0;
  for (int n = 0; n < 100; ++n) {
    PortableKey key = key_of(0);
    key.bytes[20] = static_cast<std::byte>(n);
    const auto demotion = memory.tier->reserve({key, tokens});
    if (!demotion) {
      ++refused;
      CHECK(demotion.error() == TierRefusal{Kind::kTableFull, 65, 64});
      continue;
    }
    memory.tier->demote(demotion->slot, page(n)).value();
    CHECK(memory.tier.load(memory.tier->find({key, tokens})).value() == page(n));
  }
  CHECK(refused == 36);
  CHECK(memory.tier->capacity() == TierCapacity{128, 64, 64, 0});
  memory.tier->check_invariants();
}

TEST_CASE("cache_tier.tier.nothing_is_allocated_after_construction", "[cache_tier]") {
  MemoryTier memory;
  auto& tier = memory.tier.get();
  std::vector<Tokens> tokens;
  for (int n = 0; n < 12; ++n) tokens.push_back(tokens_from(static_cast<TokenId>(n), 4));
  auto bytes = page(1);
  const std::size_t before = allocated_bytes();
  bool good = true;
  for (int n = 0; n < 12; ++n) {
    const auto demotion = tier.reserve({key_of(n), tokens[static_cast<std::size_t>(n)]});
    good = good && demotion && tier.demote(demotion->slot, bytes) && tier.hold(demotion->slot) && tier.promote(demotion->slot, bytes);
    good = good && (n % 3 != 0 || tier.drop(demotion->slot)) && !tier.promote(demotion->slot, bytes);
  }
  CHECK(allocated_bytes() == before);
  CHECK(good);
  const Tokens probe(100);
  CHECK(allocated_bytes() > before);  // the counter counts
}

TEST_CASE("cache_tier.tier.bad_configurations_name_value_and_limit", "[cache_tier]") {
  const auto refused = [](const OffloadTierConfig& config) {
    std::vector<std::byte> memory(10'000);
    std::vector<std::byte> pages(400);
    try {
      OffloadTier<> tier{config, memory, MemoryTierStore{pages}};
    } catch (const ConfigError& error) {
      return std::pair{error.value(), error.limit()};
    }
    return std::pair<std::int64_t, std::int64_t>{-1, -1};
  };
  CHECK(refused({.num_slots = 4, .page_bytes = 100}) == std::pair<std::int64_t, std::int64_t>{-1, -1});
  CHECK(refused({.num_slots = 0, .page_bytes = 100}) == std::pair<std::int64_t, std::int64_t>{0, 1 << 30});
  CHECK(refused({.num_slots = 4, .page_bytes = 0}) == std::pair<std::int64_t, std::int64_t>{0, 1});
  CHECK(refused({.num_slots = 4, .page_bytes = 101}) == std::pair<std::int64_t, std::int64_t>{400, 404});
  CHECK(refused({.num_slots = 4, .page_bytes = 100, .block_size = 1025}) == std::pair<std::int64_t, std::int64_t>{1025, 1024});
  CHECK(refused({.num_slots = 4, .page_bytes = std::numeric_limits<std::int64_t>::max() / 3}).first == 400);
  CHECK(refused({.num_slots = 400, .page_bytes = 1}).first == 10'000);  // bytes of memory; the table needs more
}

namespace {

/// The same work over a store that fails at call `fail_at`, and from then on when for_good; returns the calls that were made.
template <bool kPersistent>
std::int64_t work(std::int64_t fail_at, bool for_good) {
  using Tier = OffloadTier<FlakyStore<kPersistent>>;
  Disk disk;
  disk.bytes.resize(static_cast<std::size_t>(kConfig.num_slots * Tier::slot_bytes(kConfig)));
  TierFixture<FlakyStore<kPersistent>> tier{kConfig, FlakyStore<kPersistent>{disk}};
  disk.num_calls = 0;
  disk.fail_at = fail_at, disk.for_good = for_good;
  int refusals = 0;
  for (int n = 0; n < 12; ++n) {
    refusals += tier.store(n, n) == kNoTierSlot ? 1 : 0;
    for (int k = 0; k <= n; k += 3) {
      const std::uint32_t slot = tier.find(k);
      if (slot == kNoTierSlot) continue;
      const auto loaded = tier.load(slot);
      if (loaded) {
        CHECK(loaded.value() == page(k));
      } else {
        CHECK(loaded.error().kind == Kind::kStoreFailed);
        CHECK(tier.find(k) == kNoTierSlot);
        ++refusals;
      }
    }
    tier->check_invariants();
  }
  CHECK((refusals > 0) == (fail_at >= 0 && fail_at < disk.num_calls));
  CHECK(tier->capacity().in_flight == 0);
  const std::int64_t num_calls = disk.num_calls;
  disk.fail_at = -1;  // the disk works again: so does the tier
  CHECK(tier.load(tier.store(100, 100)).value() == page(100));
  return num_calls;
}
}  // namespace

TEST_CASE("cache_tier.tier.each_store_call_may_fail_once_or_for_good", "[cache_tier]") {
  for (const bool for_good : {false, true}) {
    const std::int64_t num_memory_calls = work<false>(-1, for_good);
    for (std::int64_t k = 0; k < num_memory_calls; ++k) work<false>(k, for_good);
    const std::int64_t num_calls = work<true>(-1, for_good);
    CHECK(num_calls > num_memory_calls);
    for (std::int64_t k = 0; k < num_calls; ++k) work<true>(k, for_good);
  }
}

TEST_CASE("cache_tier.tier.clear_forgets_all_or_refuses", "[cache_tier]") {
  MemoryTier memory;
  for (int n = 0; n < 3; ++n) memory.tier.store(n, n);
  memory.tier->hold(memory.tier.find(1)).value();
  CHECK(memory.tier->clear().error().kind == Kind::kInFlight);
  CHECK(memory.tier.find(0) != kNoTierSlot);
  memory.tier->release(memory.tier.find(1)).value();
  memory.tier->clear().value();
  for (int n = 0; n < 3; ++n) CHECK(memory.tier.find(n) == kNoTierSlot);
  CHECK(memory.tier->capacity() == TierCapacity{.num_slots = 4, .free = 4, .stored = 0, .in_flight = 0});
  memory.tier->check_invariants();
}
