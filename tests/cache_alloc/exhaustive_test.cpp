// Every string of operations on a pool of three blocks, compared after each operation with a model of a few strings.
#include "cache_alloc/colliding_hashes.hpp"
#include "cache_alloc/three_blocks.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <kvpage/cache/block_allocator.hpp>

namespace {

using namespace kvpage;
using namespace kvpage_test;

using Allocator = BlockAllocator<PrefixIndex<MaskedHash>>;
constexpr BlockAllocatorConfig kConfig{.num_blocks = 3, .block_size = 2, .max_seqs = 2};

/// Contents differ in the last token of a block, so that half a block can be hit.
constexpr std::array<const char*, 2> kContents{"xa", "xb"};

enum class Kind : std::uint8_t { kGrow, kFree, kFork, kPublish, kShare, kEvict, kReset };
struct Operation {
  Kind kind;
  std::size_t seq;
  std::size_t content;
};
constexpr std::array<Operation, 16> kOperations{{{Kind::kGrow, 0, 0}, {Kind::kGrow, 0, 1}, {Kind::kGrow, 1, 0}, {Kind::kGrow, 1, 1},
    {Kind::kFree, 0, 0}, {Kind::kFree, 1, 0}, {Kind::kFork, 0, 0}, {Kind::kFork, 1, 0}, {Kind::kPublish, 0, 0}, {Kind::kPublish, 1, 0},
    {Kind::kShare, 0, 0}, {Kind::kShare, 0, 1}, {Kind::kShare, 1, 0}, {Kind::kShare, 1, 1}, {Kind::kEvict, 0, 0}, {Kind::kReset, 0, 0}}};

/// `text` in front of zeros.
std::array<TokenId, 6> tokens_of(const std::string& text) {
  std::array<TokenId, 6> tokens{};
  std::copy(text.begin(), text.end(), tokens.begin());
  return tokens;
}
char digit(BlockId b) { return static_cast<char>('0' + b.value); }

/// The allocator and the model side by side.
class World {
 public:
  World(std::uint64_t mask, std::span<std::byte> memory) : allocator_(kConfig, memory, options(mask)) {}

  static PrefixIndexOptions<MaskedHash> options(std::uint64_t mask) {
    PrefixIndexOptions<MaskedHash> options{MaskedHash{mask}};
    options.max_namespaces = 1;
    options.namespace_bytes = 0;
    return options;
  }

  void apply(const Operation& op) {
    switch (op.kind) {
      case Kind::kGrow: grow(op.seq, kContents[op.content]); break;
      case Kind::kFree: release(op.seq); break;
      case Kind::kFork: fork(op.seq); break;
      case Kind::kPublish: publish(op.seq); break;
      case Kind::kShare: share(op.seq, kContents[op.content]); break;
      case Kind::kEvict: evict(); break;
      case Kind::kReset: reset(); break;
    }
  }
  void compare() const;

 private:
  void finish(Allocator::Transaction& txn);
  void grow(std::size_t s, const std::string& content);
  void release(std::size_t s);
  void fork(std::size_t s);
  void publish(std::size_t s);
  void share(std::size_t s, const std::string& content);
  void evict();
  void reset();

  Allocator allocator_;
  ThreeBlocks model_;
  std::array<SeqId, 2> ids_{};
};

void World::finish(Allocator::Transaction& txn) {
  if (txn.copies().empty()) return txn.commit().value();
  allocator_.commit(txn.seal().value()).value();
}

/// Room for the next block of tokens, or for the rest of a half-filled one, which must be writable.
void World::grow(std::size_t s, const std::string& content) {
  ThreeBlocks::Seq& seq = model_.seqs[s];
  auto txn = allocator_.begin();
  const SeqId id = seq.live ? ids_[s] : txn->create().value();
  const std::size_t length = seq.text.size();
  const bool half = length % 2 == 1;
  const bool replace = half && model_.refs(seq.blocks.back()) > 1;
  const auto grown = txn->grow(id, static_cast<std::int64_t>(length + (half ? 1 : 2)));
  if (!half && (length == 6 || model_.available() == 0)) {
    const CacheRefusal expected = length == 6 ? CacheRefusal{CacheRefusalKind::kTableFull, 4, 3}
                                              : CacheRefusal{CacheRefusalKind::kNoBlocks, 1, 0};
    return require(!grown && grown.error() == expected, "a table or pool that is full");
  }
  require(grown.has_value(), "there was a block to grow");
  const auto writable = txn->make_writable(id, static_cast<std::int64_t>(length), allocator_.num_tokens(id));
  if (replace && model_.available() == 0) {
    return require(!writable && writable.error() == CacheRefusal{CacheRefusalKind::kNoBlocks, 1, 0}, "no block for a copy");
  }
  require(writable.has_value(), "there was a block for a copy");
  require(txn->copies().size() == (replace ? 1u : 0u), "a copy exactly of a shared half-filled block");
  finish(*txn);
  const char last = digit(allocator_.table(id).blocks.back());
  if (replace) require(last != seq.blocks.back(), "the copy is another block");
  if (replace || !half) model_.take(last);
  if (replace) seq.blocks.pop_back();
  if (replace || !half) seq.blocks += last;
  seq.text += half ? content.substr(1) : content;
  seq.live = true;
  ids_[s] = id;
}

void World::release(std::size_t s) {
  auto txn = allocator_.begin();
  const auto released = txn->release(ids_[s]);
  require(released.has_value() == model_.seqs[s].live, "exactly a live sequence is released");
  if (!released) return require(released.error().kind == CacheRefusalKind::kDeadSeq, "a dead sequence is dead");
  finish(*txn);
  model_.release(s);
}

void World::fork(std::size_t s) {
  auto txn = allocator_.begin();
  const auto child = txn->fork(ids_[s]);
  const std::size_t other = 1 - s;
  require(child.has_value() == (model_.seqs[s].live && !model_.seqs[other].live), "a live sequence forks into a free slot");
  if (!child) return;
  finish(*txn);
  model_.seqs[other] = model_.seqs[s];
  ids_[other] = *child;
}

void World::publish(std::size_t s) {
  const auto tokens = tokens_of(model_.seqs[s].text);
  const auto done = allocator_.publish(ids_[s], {.tokens = std::span{tokens}.first(model_.seqs[s].text.size())});
  require(done.has_value() == model_.seqs[s].live, "exactly a live sequence publishes");
  if (done) model_.publish(s);
}

/// A dead sequence starts anew from what is found for three blocks of one content.
void World::share(std::size_t s, const std::string& content) {
  if (model_.seqs[s].live) return;
  const std::string prompt = content + content + content;
  const ThreeBlocks::Hit hit = model_.match(prompt);
  auto txn = allocator_.begin();
  ids_[s] = txn->create().value();
  const auto tokens = tokens_of(prompt);
  const SharedPrefix shared = txn->share(ids_[s], allocator_.match({.tokens = tokens})).value();
  const bool copied = !txn->copies().empty();
  finish(*txn);
  for (const char b : hit.blocks) model_.wanted(b);
  ThreeBlocks::Seq& seq = model_.seqs[s];
  seq = {.live = true, .text = prompt.substr(0, 2 * hit.blocks.size()), .blocks = hit.blocks};
  const bool possible = hit.half != 0 && model_.available() > (model_.refs(hit.half) == 0 ? 1 : 0);
  require(copied == possible, "half a block is copied while there is another one");
  if (copied) {
    model_.wanted(hit.half);
    model_.held = hit.half;
    const char target = digit(allocator_.table(ids_[s]).blocks.back());
    model_.take(target);
    seq.text += prompt[seq.text.size()];
    seq.blocks += target;
    model_.held.clear();
    model_.dropped(hit.half);
  }
  require_equal(shared.num_tokens, static_cast<std::int64_t>(seq.text.size()), "shared tokens");
}

/// Everything that is not in use is used once for something else.
void World::evict() {
  std::vector<BlockRef> blocks;
  auto txn = allocator_.begin();
  while (auto block = txn->allocate_block()) {
    model_.take(digit(block->id()));
    model_.held += digit(block->id());
    blocks.push_back(*std::move(block));
  }
  require(model_.available() == 0, "only a full pool refuses");
  finish(*txn);
  auto end = allocator_.begin();
  for (BlockRef& block : blocks) end->free_block(std::move(block)).value();
  finish(*end);
  model_.held.clear();
}

void World::reset() {
  const bool idle = !model_.seqs[0].live && !model_.seqs[1].live;
  require(allocator_.reset(CacheReset::kIfIdle).has_value() == idle, "a reset if idle, when idle");
  if (!idle) allocator_.reset(CacheReset::kDetach).value();
  for (std::string& p : model_.published) p.clear();
  model_.cached.clear();
  for (ThreeBlocks::Seq& seq : model_.seqs) seq.detached = seq.live;
}

void World::compare() const {
  const CapacitySnapshot now = allocator_.capacity();
  require_equal(now.used, model_.used(), "used");
  require_equal(now.cached, static_cast<std::int64_t>(model_.cached.size()), "cached");
  require_equal(now.clean, 3 - now.used - now.cached, "clean");
  for (const char b : {'0', '1', '2'}) {
    require_equal(allocator_.ref_count(BlockId{static_cast<std::uint32_t>(b - '0')}), model_.refs(b), "references");
  }
  for (std::size_t s = 0; s < 2; ++s) {
    const ThreeBlocks::Seq& seq = model_.seqs[s];
    require(allocator_.alive(ids_[s]) == seq.live, "who lives");
    if (!seq.live) continue;
    const BlockTable table = allocator_.table(ids_[s]);
    require_equal(table.num_tokens, static_cast<std::int64_t>(seq.text.size()), "tokens");
    require(std::equal(table.blocks.begin(), table.blocks.end(), seq.blocks.begin(), seq.blocks.end(),
                       [](BlockId block, char b) { return digit(block) == b; }), "the blocks of a sequence");
  }
  for (std::size_t bits = 0; bits < 8; ++bits) {
    const std::string prompt = std::string{kContents[bits % 2]} + kContents[bits / 2 % 2] + kContents[bits / 4];
    const std::array<TokenId, 6> tokens = tokens_of(prompt);
    const PrefixHit hit = allocator_.match({.tokens = tokens});
    const ThreeBlocks::Hit expected = model_.match(prompt);
    require_equal(hit.num_blocks, static_cast<std::int64_t>(expected.blocks.size()), "blocks of the longest hit");
    require_equal(hit.partial_tokens, expected.half != 0 ? 1 : 0, "tokens of a hit behind its full blocks");
  }
  allocator_.check_invariants();
}

/// Two contents, each in a cached block of its own, as operations.
const std::vector<std::size_t> kTwoCached{0, 8, 4, 3, 9, 5};

/// Runs every string of `length` operations behind those of `start`; what a string shares with the one before it was compared then.
std::int64_t run_all(std::uint64_t mask, const std::vector<std::size_t>& start, std::size_t length) {
  std::vector<std::byte> memory(Allocator::required_bytes(kConfig, World::options(mask)));
  std::vector<std::size_t> word = start;
  word.resize(start.size() + length, 0);
  std::size_t compared = 0;
  for (std::int64_t count = 0;; ++count) {
    World world{mask, memory};
    std::size_t done = 0;
    try {
      for (; done < word.size(); ++done) {
        world.apply(kOperations[word[done]]);
        if (done >= compared) world.compare();
      }
    } catch (const Mismatch& mismatch) {
      std::string failure = mismatch.what + "; operations:";
      for (std::size_t i = 0; i <= done; ++i) failure += " " + std::to_string(word[i]);
      throw Mismatch{failure};
    }
    std::size_t at = word.size();
    while (at > start.size() && word[at - 1] + 1 == kOperations.size()) word[--at] = 0;
    if (at == start.size()) return count + 1;
    ++word[at - 1];
    compared = at - 1;
  }
}

/// Every string, under a good hash and under one that is constant.
void check_all(const std::vector<std::size_t>& start, std::size_t length) {
  set_assert_handler([](const AssertInfo& info) { throw Mismatch{std::string{info.message} + " (" + info.expression + ")"}; });
  for (const std::uint64_t mask : {~std::uint64_t{0}, std::uint64_t{0}}) {
    INFO("key bits " << mask);
    try {
      CHECK(run_all(mask, start, length) == std::int64_t{1} << (4 * length));
    } catch (const Mismatch& mismatch) {
      FAIL(mismatch.what);
    }
  }
}

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kLength = 3;
#else
constexpr std::size_t kLength = 5;
#endif

}  // namespace

TEST_CASE("cache_alloc.exhaustive.every_string_of_operations_agrees_with_the_model", "[cache_alloc]") {
  check_all({}, night_run() ? 7 : kLength);
}

TEST_CASE("cache_alloc.exhaustive.every_string_from_two_cached_blocks_agrees_with_the_model", "[cache_alloc]") {
  check_all(kTwoCached, night_run() ? 6 : kLength - 1);
}
