// Namespaces: what may be one, and that no prompt ever finds the blocks of another, under any hash.
#include "cache_alloc/colliding_hashes.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <kvpage/cache/block_allocator.hpp>

#include <random>
#include <string>

namespace {

using namespace kvpage;
using Allocator = BlockAllocator<PrefixIndex<kvpage_test::MaskedHash>>;
using Type = NamespaceFieldType;

NamespaceField field(int type, std::string_view text) { return {static_cast<Type>(type), std::as_bytes(std::span{text})}; }
NamespaceField field(Type type, std::string_view text) { return {type, std::as_bytes(std::span{text})}; }

/// An allocator and its memory.
class Pool {
 public:
  Pool(const BlockAllocatorConfig& config, const Allocator::IndexOptions& options)
      : memory_(Allocator::required_bytes(config, options)), allocator_(config, memory_, options) {}
  Allocator* operator->() { return &allocator_; }

 private:
  std::vector<std::byte> memory_;
  Allocator allocator_;
};

Allocator::IndexOptions options(std::uint64_t key_bits) { return Allocator::IndexOptions{kvpage_test::MaskedHash{key_bits}}; }
CacheRefusal bad(std::int64_t need, std::int64_t available) { return {CacheRefusalKind::kBadNamespace, need, available}; }

constexpr std::int64_t kBlock = 2;
constexpr std::int64_t kBlocks = 12;
constexpr std::size_t kPromptTokens = 6;

/// Asks for random prompts in random namespaces. Each block remembers what was computed for it: a namespace, and all tokens up to it.
class Tenants {
 public:
  Tenants(std::uint64_t key_bits, std::uint64_t seed)
      : pool_({.num_blocks = kBlocks, .block_size = kBlock, .max_seqs = 1}, options(key_bits)), rng_(seed) {
    // Salts and adapters whose bytes, put one behind the other, are often equal.
    for (const char* salt : {"", "a", "ab", "b"}) {
      for (const char* adapter : {"", "a", "b"}) {
        const NamespaceField fields[] = {field(Type::kSalt, salt), field(Type::kAdapter, adapter)};
        spaces_.push_back(pool_->intern(fields).value());
      }
    }
  }

  /// One prompt is matched; each fourth is computed and published too. Returns the foreign tokens that it was given.
  std::int64_t ask() {
    const NamespaceId space = spaces_[rng_() % spaces_.size()];
    std::array<TokenId, kPromptTokens> prompt{};
    for (TokenId& token : prompt) token = static_cast<TokenId>(rng_() % 2);
    const PrefixHit hit = pool_->match({.name_space = space, .tokens = prompt});
    const bool compute = rng_() % 4 == 0;
    if (hit.num_tokens == 0 && !compute) return 0;
    num_hits_ += hit.num_tokens > 0 ? 1 : 0;
    auto txn = pool_->begin();
    const SeqId seq = txn->create(space).value();
    const SharedPrefix shared = txn->share(seq, hit).value();
    const std::int64_t foreign = count_foreign(space, prompt, shared.num_tokens - shared.copied_tokens, seq, *txn);
    if (compute) run(*txn, seq, space, prompt);
    return foreign;
  }
  [[nodiscard]] std::int64_t num_hits() const noexcept { return num_hits_; }

 private:
  /// What a block was computed for: the first num_tokens tokens of a prompt, in a namespace.
  struct Content {
    std::uint32_t space = 0;
    std::int64_t num_tokens = 0;
    std::array<TokenId, kPromptTokens> tokens{};
  };

  [[nodiscard]] bool holds(BlockId block, NamespaceId space, std::span<const TokenId> prompt, std::int64_t num_tokens) const {
    const Content& content = contents_[block.value];
    return content.space == space.value && content.num_tokens >= num_tokens &&
           std::equal(prompt.begin(), prompt.begin() + num_tokens, content.tokens.begin());
  }
  std::int64_t count_foreign(NamespaceId space, std::span<const TokenId> prompt, std::int64_t full_tokens, SeqId seq,
                             const Allocator::Transaction& txn) const {
    std::int64_t foreign = 0;
    const BlockTable table = pool_->table(seq);
    for (std::int64_t end = kBlock; end <= full_tokens; end += kBlock) {
      foreign += holds(table.blocks[static_cast<std::size_t>(end / kBlock - 1)], space, prompt, end) ? 0 : kBlock;
    }
    for (const CopyOp& copy : txn.copies()) {
      foreign += holds(copy.source, space, prompt, full_tokens + copy.num_tokens) ? 0 : copy.num_tokens;
    }
    return foreign;
  }
  void run(Allocator::Transaction& txn, SeqId seq, NamespaceId space, const std::array<TokenId, kPromptTokens>& prompt) {
    txn.grow(seq, kPromptTokens).value();
    const StepId step = txn.seal().value();
    pool_->commit(step).value();
    const BlockTable table = pool_->table(seq);
    for (std::size_t i = 0; i < table.blocks.size(); ++i) {
      contents_[table.blocks[i].value] = {space.value, static_cast<std::int64_t>(i + 1) * kBlock, prompt};
    }
    pool_->publish(seq, {.tokens = prompt}).value();
    auto end = pool_->begin();
    end->release(seq).value();
    end->commit().value();
  }

  mutable Pool pool_;
  std::mt19937_64 rng_;
  std::vector<NamespaceId> spaces_;
  std::array<Content, static_cast<std::size_t>(kBlocks)> contents_;
  std::int64_t num_hits_ = 0;
};

}  // namespace

TEST_CASE("cache_alloc.namespace.limits_are_refused_with_their_numbers", "[cache_alloc]") {
  Allocator::IndexOptions small = options(0xFF);
  small.max_namespaces = 4;
  small.namespace_bytes = 8 * (6 + 256) + 8;
  Pool pool{{.num_blocks = 1}, small};
  std::vector<NamespaceField> fields;
  const std::string longest(256, 'x');
  const std::string too_long(257, 'x');
  for (int type = 1; type <= 8; ++type) fields.push_back(field(type, longest));
  CHECK(pool->intern({}).value() == NamespaceId{0});
  CHECK(pool->intern(fields).value() == NamespaceId{1});
  fields.push_back(field(9, ""));
  CHECK(pool->intern(fields).error() == bad(9, 8));
  const NamespaceField long_one[] = {field(Type::kSalt, too_long)};
  CHECK(pool->intern(long_one).error() == bad(257, 256));
  const NamespaceField twice[] = {field(Type::kSalt, "a"), field(Type::kUser, "b"), field(Type::kSalt, "a")};
  CHECK(pool->intern(twice).error() == bad(2, 1));
  const NamespaceField two_bytes[] = {field(Type::kSalt, "ab")};
  CHECK(pool->intern(two_bytes).value() == NamespaceId{2});  // the last of namespace_bytes
  const NamespaceField one_byte[] = {field(Type::kSalt, "a")};
  CHECK(pool->intern(one_byte).error() == CacheRefusal{CacheRefusalKind::kNoNamespace, 8 * 262 + 8 + 7, 8 * 262 + 8});
  CHECK(pool->intern(two_bytes).value() == NamespaceId{2});
  CHECK(pool->begin()->create(NamespaceId{3}).error() == bad(3, 3));
}

TEST_CASE("cache_alloc.namespace.slots_run_out_with_their_numbers", "[cache_alloc]") {
  Allocator::IndexOptions two = options(0xFF);
  two.max_namespaces = 2;
  Pool pool{{.num_blocks = 1}, two};
  const NamespaceField first[] = {field(Type::kSalt, "a")};
  const NamespaceField second[] = {field(Type::kSalt, "b")};
  CHECK(pool->intern(first).value() == NamespaceId{1});
  CHECK(pool->intern(second).error() == CacheRefusal{CacheRefusalKind::kNoNamespace, 3, 2});
  CHECK(pool->intern(first).value() == NamespaceId{1});
}

TEST_CASE("cache_alloc.namespace.fields_are_one_set_in_any_order_and_never_one_string", "[cache_alloc]") {
  Pool pool{{.num_blocks = 1}, options(0xFF)};
  const NamespaceField sorted[] = {field(Type::kSalt, "a"), field(Type::kAdapter, "b"), field(Type::kUser, "c")};
  const NamespaceField shuffled[] = {sorted[2], sorted[0], sorted[1]};
  CHECK(pool->intern(sorted).value() == pool->intern(shuffled).value());
  const NamespaceField salt_and_adapter[] = {field(Type::kSalt, "a"), field(Type::kAdapter, "b")};
  const NamespaceField salt_alone[] = {field(Type::kSalt, "ab")};
  const NamespaceField swapped[] = {field(Type::kSalt, "b"), field(Type::kAdapter, "a")};
  CHECK(pool->intern(salt_and_adapter).value() == NamespaceId{2});
  CHECK(pool->intern(salt_alone).value() == NamespaceId{3});
  CHECK(pool->intern(swapped).value() == NamespaceId{4});
}

TEST_CASE("cache_alloc.namespace.no_prompt_finds_the_blocks_of_another", "[cache_alloc]") {
#if defined(__SANITIZE_ADDRESS__)
  const std::int64_t num_prompts = 50'000;
#else
  const std::int64_t num_prompts = kvpage_test::night_run() ? 10'000'000 : 1'000'000;
#endif
  const std::uint64_t seed = 13;
  for (const std::uint64_t key_bits : {0xFFu, 0x00u}) {
    Tenants tenants{key_bits, seed};
    INFO("key bits " << key_bits << ", seed " << seed);
    std::int64_t foreign = 0;
    for (std::int64_t i = 0; i < num_prompts; ++i) foreign += tenants.ask();
    CHECK(foreign == 0);
    CHECK(tenants.num_hits() > num_prompts / 10);
  }
}
