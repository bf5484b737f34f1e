#include "cache_tier/flaky_store.hpp"
#include "cache_tier/toy_engine.hpp"
#include "support/catch.hpp"

namespace {

using namespace kvpage;
using namespace kvpage_test;

constexpr std::int64_t kBlockSize = 4;

/// SipHash, or, without a secret, the same key for everything: then tokens alone tell contents apart.
struct ToyHash {
  SipSecret secret = SipSecret::fixed(0, 0);
  PrefixKey operator()(const PrefixKey& parent, std::uint32_t extra, std::span<const TokenId> tokens) const noexcept {
    return secret.k0 == 0 ? PrefixKey{1, 1} : SipHash13{secret}(parent, extra, tokens);
  }
};

using Store = FlakyStore<true>;
using Engine = ToyEngine<ToyHash, Store>;

struct Setup {
  Setup(std::int64_t num_blocks, std::int64_t num_slots, std::int64_t window, ToyHash hash)
      : config{.num_blocks = num_blocks, .block_size = kBlockSize, .max_seqs = 2, .num_groups = window > 0 ? 2 : 1},
        tier_config{.num_slots = num_slots, .page_bytes = kBlockSize * 8, .block_size = kBlockSize, .layout_id = 3}, key(hash) {
    config.window_tokens[1] = window;
    disk.bytes.resize(static_cast<std::size_t>(num_slots * OffloadTier<Store>::slot_bytes(tier_config)));
    restart();
  }
  void restart() { engine = std::make_unique<Engine>(config, key, tier_config, Store{disk}); }

  BlockAllocatorConfig config;
  OffloadTierConfig tier_config;
  ToyHash key;
  Disk disk;
  std::unique_ptr<Engine> engine;
};

/// Prompts with shared starts, as chats have them.
class Prompts {
 public:
  explicit Prompts(std::uint64_t seed) : rng_(seed) {}
  std::uint32_t pick(std::uint32_t n) { return static_cast<std::uint32_t>(rng_() % n); }
  Tokens next() {
    Tokens prompt = tokens_from(1000 * pick(3), 4 + pick(9));
    for (std::uint32_t turn = pick(4); turn > 0; --turn) {
      const Tokens more = tokens_from(10 * pick(3), 1 + pick(8));
      prompt.insert(prompt.end(), more.begin(), more.end());
    }
    return prompt;
  }

 private:
  std::mt19937_64 rng_;
};

void add(ToyCounts& sum, const ToyCounts& counts) {
  sum.demoted += counts.demoted, sum.promoted += counts.promoted, sum.failed_loads += counts.failed_loads;
  sum.failed_demotions += counts.failed_demotions, sum.short_loads += counts.short_loads, sum.computed += counts.computed;
}

/// Random prompts, faults of the store, damage, dropped and aborted steps: every answer is right, every count adds up.
ToyCounts storm(std::uint64_t seed, std::int64_t window, ToyHash hash, int num_requests) {
  INFO("seed " << seed << ", window " << window);
  Prompts prompts{seed};
  Setup setup{window > 0 ? 26 : 13, 4 + prompts.pick(40), window, hash};
  ToyCounts sum;
  for (int request = 0; request < num_requests; ++request) {
    CAPTURE(request);
    const Tokens prompt = prompts.next();
    for (int i = 0; i < 6; ++i) setup.disk.faults.push_back(prompts.pick(12) == 0 ? StoreFault::kHalf : StoreFault::kNone);
    if (prompts.pick(4) == 0) setup.disk.bytes[prompts.pick(static_cast<std::uint32_t>(setup.disk.bytes.size()))] ^= std::byte{4};
    const std::uint32_t fault = prompts.pick(12);
    const ToyFaults faults{.drop_plan = fault == 0, .abort_before_run = fault == 1, .abort_after_run = fault == 2};
    REQUIRE(setup.engine->serve(NamespaceId{}, prompt, faults) == setup.engine->expected(prompt));
    setup.disk.faults.clear();
    setup.engine->cache().check_invariants();
    setup.engine->tier().check_invariants();
    REQUIRE(setup.engine->tier().capacity().in_flight == 0);
    REQUIRE(setup.engine->cache().capacity().used == 0);
    if (prompts.pick(50) == 0) {
      add(sum, setup.engine->counts());
      setup.restart();
    }
  }
  add(sum, setup.engine->counts());
  return sum;
}

void check_all_happened(const ToyCounts& sum, std::int64_t at_least) {
  CHECK(sum.demoted >= at_least);
  CHECK(sum.promoted >= at_least);
  CHECK(sum.failed_demotions >= at_least / 10);
  CHECK(sum.failed_loads >= at_least / 10);
  CHECK(sum.short_loads >= at_least / 10);
}

}  // namespace

TEST_CASE("cache_tier.engine.an_evicted_prompt_comes_back_from_the_tier", "[cache_tier]") {
  Setup setup{8, 64, 0, ToyHash{SipSecret::fixed(1, 2)}};
  const Tokens first = tokens_from(0, 30);
  const Tokens second = tokens_from(500, 30);
  auto& engine = *setup.engine;
  CHECK(engine.serve({}, first) == engine.expected(first));
  CHECK(engine.serve({}, second) == engine.expected(second));
  CHECK(engine.counts().computed == 60);
  CHECK(engine.counts().demoted == 7);   // the full blocks of the first; its partial leaf is lost
  CHECK(engine.serve({}, first) == engine.expected(first));
  CHECK(engine.counts().promoted == 7);
  CHECK(engine.counts().computed == 62);  // two tokens behind the last full block
  CHECK(engine.serve({}, second) == engine.expected(second));
  CHECK(engine.serve({}, first) == engine.expected(first));
  CHECK(engine.counts().demoted == 14);  // each content once: what came back is still in the tier
  CHECK(engine.counts().computed == 66);
}

TEST_CASE("cache_tier.engine.the_tier_continues_what_the_device_still_has", "[cache_tier]") {
  const std::int64_t window = GENERATE(0, 3, 9);
  Setup setup{window > 0 ? 16 : 8, 64, window, ToyHash{SipSecret::fixed(1, 2)}};
  auto& engine = *setup.engine;
  const auto served = [&](TokenId behind) {  // 12 tokens that all prompts share, then 18 of their own
    Tokens prompt = tokens_from(0, 12);
    const Tokens own = tokens_from(behind, 18);
    prompt.insert(prompt.end(), own.begin(), own.end());
    const std::int64_t before = engine.counts().computed;
    CHECK(engine.serve({}, prompt) == engine.expected(prompt));
    return engine.counts().computed - before;
  };
  CHECK(served(100) == 30);
  CHECK(served(200) == 18);
  const std::int64_t promoted = engine.counts().promoted;
  CHECK(served(100) == 2);  // 3 blocks from the device, 4 from the tier
  CHECK(engine.counts().promoted - promoted == 4 + (window == 0 ? 0 : window == 3 ? 1 : 2));
  CHECK(served(200) == 2);
}

TEST_CASE("cache_tier.engine.a_chain_leaves_the_tier_from_its_end", "[cache_tier]") {
  Setup setup{8, 14, 0, ToyHash{SipSecret::fixed(1, 2)}};
  auto& engine = *setup.engine;
  const Tokens prompts[] = {tokens_from(0, 30), tokens_from(500, 30)};
  for (const int i : {0, 1, 0, 1}) CHECK(engine.serve({}, prompts[i]) == engine.expected(prompts[i]));
  CHECK(engine.tier().capacity() == TierCapacity{14, 0, 14, 0});
  const auto num_found = [&](const Tokens& prompt) {  // blocks of the prompt in the tier, from its start
    PortableKey key = engine.cache().index().portable_key(0);
    std::int64_t found = 0;
    for (std::size_t at = 0; at + kBlockSize <= prompt.size(); at += kBlockSize, ++found) {
      key = portable_block_key(key, std::span{prompt}.subspan(at, kBlockSize));
      if (engine.tier().find({key, std::span{prompt}.subspan(at, kBlockSize)}) == kNoTierSlot) break;
    }
    return found;
  };
  for (int n = 0; n < 14; ++n) {
    CHECK(num_found(prompts[1]) == 7 - std::min(n, 7));  // loaded before the other one was demoted again
    CHECK(num_found(prompts[0]) == 7 - std::max(n - 7, 0));
    const Tokens tokens = tokens_from(2000, kBlockSize);
    CHECK(engine.tier().reserve({key_of(n), tokens})->needs_copy);
  }
}

TEST_CASE("cache_tier.engine.a_damaged_page_shortens_the_hit_to_what_is_before_it", "[cache_tier]") {
  for (std::int64_t damaged = 0; damaged < 7; ++damaged) {
    Setup setup{8, 64, 0, ToyHash{SipSecret::fixed(1, 2)}};
    auto& engine = *setup.engine;
    const Tokens first = tokens_from(0, 30);
    const Tokens second = tokens_from(500, 30);
    static_cast<void>(engine.serve({}, first));
    static_cast<void>(engine.serve({}, second));
    PortableKey key = engine.cache().index().portable_key(0);
    std::uint32_t slot = kNoTierSlot;
    for (std::int64_t i = 0; i <= damaged; ++i) {
      const auto content = std::span{first}.subspan(static_cast<std::size_t>(i * kBlockSize), kBlockSize);
      key = portable_block_key(key, content);
      slot = engine.tier().find({key, content});
      REQUIRE(slot != kNoTierSlot);
    }
    const std::int64_t behind = (slot + 1) * OffloadTier<Store>::slot_bytes(setup.tier_config);
    setup.disk.bytes[static_cast<std::size_t>(behind - 5)] ^= std::byte{1};
    CHECK(engine.serve({}, first) == engine.expected(first));
    CHECK(engine.counts().failed_loads == 1);
    CHECK(engine.counts().computed == 60 + 30 - damaged * kBlockSize);
    engine.cache().check_invariants();
  }
}

TEST_CASE("cache_tier.engine.namespaces_and_layouts_do_not_meet_in_a_kept_store", "[cache_tier]") {
  Setup setup{8, 64, 0, ToyHash{SipSecret::fixed(1, 2)}};
  const Tokens prompt = tokens_from(0, 30);
  const Tokens other = tokens_from(900, 30);
  const std::byte a[1] = {std::byte{'a'}};
  const std::byte b[1] = {std::byte{'b'}};
  const std::byte c[1] = {std::byte{'c'}};
  const auto serve_as = [&](std::span<const std::byte> salt) {
    const NamespaceField field[] = {{NamespaceFieldType::kSalt, salt}};
    auto& engine = *setup.engine;
    const NamespaceId name_space = engine.cache().intern(field).value();
    const std::int64_t before = engine.counts().promoted;
    CHECK(engine.serve(name_space, prompt) == engine.expected(prompt));
    return engine.counts().promoted - before;
  };
  CHECK(serve_as(a) == 0);
  static_cast<void>(setup.engine->serve({}, other));  // evicts it
  CHECK(serve_as(b) == 0);
  CHECK(serve_as(a) == 7);
  setup.restart();
  CHECK(serve_as(b) == 7);  // namespaces have other ids now, their roots are the same
  CHECK(serve_as(a) == 7);
  CHECK(serve_as(c) == 0);
  ++setup.tier_config.layout_id;
  setup.restart();
  CHECK(serve_as(a) == 0);
}

TEST_CASE("cache_tier.engine.an_unknown_namespace_and_a_stale_hit_hold_nothing", "[cache_tier]") {
  Setup setup{8, 64, 0, ToyHash{SipSecret::fixed(1, 2)}};
  auto& engine = *setup.engine;
  const Tokens first = tokens_from(0, 30);
  const Tokens second = tokens_from(500, 30);
  static_cast<void>(engine.serve({}, first));
  std::uint32_t slots[8];
  const auto held = [&](NamespaceId name_space, const PrefixHit& hit) {
    return hold_extension(engine.tier(), engine.cache().index(), {.name_space = name_space, .tokens = first}, hit, slots);
  };
  const PrefixHit stale = engine.cache().match({.tokens = first});
  static_cast<void>(engine.serve({}, second));
  CHECK(held({}, stale) == 0);
  for (const std::uint32_t unknown : {1u, 255u, 256u, 0xFFFF'FFFFu}) {
    CHECK(held(NamespaceId{unknown}, engine.cache().match({.name_space = NamespaceId{unknown}, .tokens = first})) == 0);
  }
  CHECK(held({}, engine.cache().match({.tokens = first})) == 7);
  release_slots(engine.tier(), slots);
  CHECK(engine.tier().capacity().stored == 7);
}

TEST_CASE("cache_tier.engine.storms_change_no_answer", "[cache_tier]") {
  ToyCounts sum;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) add(sum, storm(seed, 0, ToyHash{SipSecret::fixed(seed, 2)}, 100));
  check_all_happened(sum, 1000);
}

TEST_CASE("cache_tier.engine.storms_with_a_window_group_change_no_answer", "[cache_tier]") {
  ToyCounts sum;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    for (const std::int64_t window : {3, 8, 13}) add(sum, storm(seed, window, ToyHash{SipSecret::fixed(seed, 2)}, 100));
  }
  check_all_happened(sum, 1000);
}

// Under a constant hash of the index, portable keys and tokens still tell contents apart.
TEST_CASE("cache_tier.engine.a_constant_hash_gives_no_foreign_page", "[cache_tier]") {
  ToyCounts sum;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) add(sum, storm(seed, 0, ToyHash{}, 100));
  check_all_happened(sum, 200);
}
