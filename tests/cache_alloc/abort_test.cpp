// A transaction that is aborted never happened, wherever it stops; nor did what came after a savepoint.
#include "cache_alloc/allocator_fixture.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <kvpage/cache/eviction_cost_aware.hpp>

#include <random>

namespace {

using namespace kvpage;
using namespace kvpage_test;

/// What the owner of sequences and blocks remembers; it goes back in time together with the allocator.
struct Owner {
  std::vector<SeqId> seqs;
  std::vector<std::pair<BlockId, std::uint32_t>> blocks;  ///< with generation
  [[nodiscard]] SeqId first() const { return seqs.empty() ? SeqId{} : seqs.front(); }
  [[nodiscard]] SeqId last() const { return seqs.empty() ? SeqId{} : seqs.back(); }
};

enum class Op : std::uint8_t {
  kCreate, kGrowFirst, kGrowLast, kForkFirst, kForkLast, kTruncateFirst, kTruncateLast, kReleaseFirst, kReleaseLast, kRewriteFirst,
  kRewriteLast, kShareWhole, kSharePart, kReleaseBefore, kAllocateBlock, kShareBlock, kFreeBlock, kUnref, kUnrefTooOften,
  kEnd
};
constexpr auto kNumOps = static_cast<std::size_t>(Op::kEnd);

enum class Start : std::uint8_t { kEmpty, kForked, kAllCached, kPartialLeaf, kStepsInFlight, kEnd };

BlockAllocatorConfig one_group() { return {.num_blocks = 7, .block_size = 2, .max_seqs = 4}; }
BlockAllocatorConfig two_groups() { return {.num_blocks = 14, .block_size = 2, .max_seqs = 4, .num_groups = 2, .window_tokens = {0, 3}}; }

template <class Evict>
class World {
  using Allocator = BlockAllocator<PrefixIndex<>, Evict>;
  using Transaction = typename Allocator::Transaction;

 public:
  World(const BlockAllocatorConfig& config, Start start) : pool_(config, options()) {
    switch (start) {
      case Start::kEmpty: case Start::kEnd: break;
      case Start::kForked: fork_one(); break;
      case Start::kAllCached: fill_with_cached(); break;
      case Start::kPartialLeaf: leave_partial_leaf(); break;
      case Start::kStepsInFlight: launch_steps(); break;
    }
  }

  /// Runs the operations in a transaction that is dropped. On the way back it jumps to the savepoint after each prefix once, from
  /// the end of the whole string. Returns "" or what is wrong.
  std::string abort_everywhere(std::span<const Op> ops);
  /// Runs the operations and keeps what they did.
  void keep(std::span<const Op> ops);

 private:
  static PrefixIndexOptions<> options() {
    PrefixIndexOptions<> options{SipSecret::fixed(1, 2)};
    options.max_namespaces = 1;
    options.namespace_bytes = 0;
    return options;
  }

  bool apply(Transaction& txn, Op op);
  bool apply_to_blocks(Transaction& txn, Op op);
  bool share(Transaction& txn, const Tokens& prompt);
  bool created(const CacheResult<SeqId>& seq) {
    if (seq) owner_.seqs.push_back(*seq);
    return seq.has_value();
  }
  bool released(const CacheResult<void>& done, SeqId seq) {
    if (done) std::erase(owner_.seqs, seq);
    return done.has_value();
  }

  void fork_one() {
    owner_.seqs.push_back(pool_.run(tokens_from(0, 5)));
    auto txn = pool_->begin();
    owner_.seqs.push_back(txn->fork(owner_.first()).value());
    const BlockRef block = txn->allocate_block().value();
    owner_.blocks.emplace_back(block.id(), block.generation());
    txn->commit().value();
  }
  void fill_with_cached() {
    pool_.end(pool_.run(tokens_from(0, 6)));
    pool_.end(pool_.run(Tokens{0, 1, 50, 51}));
    pool_.end(pool_.run(tokens_from(100, 6)));
  }
  void leave_partial_leaf() {
    const Tokens turn = tokens_from(0, 5);
    const SeqId seq = pool_.run(turn);
    pool_->publish(seq, {.tokens = turn, .partial_tail = true}).value();
    pool_.end(seq);
    owner_.seqs.push_back(pool_.run(tokens_from(0, 4)));
  }
  /// One step ran and its blocks are still named; a second one with a copy is sealed.
  void launch_steps() {
    owner_.seqs = {pool_.run(tokens_from(0, 5)), pool_.run(tokens_from(0, 4))};
    auto first = pool_->begin();
    first->truncate(owner_.first(), 4).value();
    pool_->commit(first->seal().value(), false).value();
    auto second = pool_->begin();
    share(*second, Tokens{0, 1, 2, 99});
    REQUIRE(second->seal());
  }

  AllocatorFixture<Allocator> pool_;
  Owner owner_;
};

template <class Evict>
bool World<Evict>::share(Transaction& txn, const Tokens& prompt) {
  const Savepoint before = txn.mark();
  const auto seq = txn.create();
  if (!seq) return false;
  if (!txn.share(*seq, pool_->match({.tokens = prompt}))) {
    txn.rollback_to(before);
    return false;
  }
  return created(seq);
}

template <class Evict>
bool World<Evict>::apply_to_blocks(Transaction& txn, Op op) {
  if (op == Op::kAllocateBlock) {
    const auto block = txn.allocate_block();
    if (block) owner_.blocks.emplace_back(block->id(), block->generation());
    return block.has_value();
  }
  if (owner_.blocks.empty()) return false;
  const auto [id, generation] = owner_.blocks.back();
  if (op == Op::kShareBlock) {
    if (!txn.share_block(BlockRef{id, generation})) return false;
    owner_.blocks.emplace_back(id, generation);
    return true;
  }
  if (op == Op::kFreeBlock) {
    if (!txn.free_block(BlockRef{id, generation})) return false;
    owner_.blocks.pop_back();
    return true;
  }
  std::vector<BlockId> ids;
  for (const auto& [block, number] : owner_.blocks) ids.push_back(block);
  if (op == Op::kUnrefTooOften) ids.push_back(id);
  if (!txn.unref(ids)) return false;
  owner_.blocks.clear();
  return true;
}

/// Returns whether the operation was done.
template <class Evict>
bool World<Evict>::apply(Transaction& txn, Op op) {
  const SeqId first = owner_.first();
  const SeqId last = owner_.last();
  const auto length = [this](SeqId seq) { return pool_->alive(seq) ? pool_->num_tokens(seq) : 1; };
  switch (op) {
    case Op::kCreate: return created(txn.create());
    case Op::kGrowFirst: return txn.grow(first, length(first) + 1).has_value();
    case Op::kGrowLast: return txn.grow(last, length(last) + 3).has_value();
    case Op::kForkFirst: return created(txn.fork(first));
    case Op::kForkLast: return created(txn.fork(last));
    case Op::kTruncateFirst: return txn.truncate(first, length(first) - length(first) / 3).has_value();
    case Op::kTruncateLast: return txn.truncate(last, 0).has_value();
    case Op::kReleaseFirst: return released(txn.release(first), first);
    case Op::kReleaseLast: return released(txn.release(last), last);
    case Op::kRewriteFirst: return txn.make_writable(first, 0, length(first)).has_value();
    case Op::kRewriteLast: return txn.make_writable(last, length(last) - 1, length(last)).has_value();
    case Op::kShareWhole: return share(txn, tokens_from(0, 6));
    case Op::kSharePart: return share(txn, Tokens{0, 1, 2, 99});
    case Op::kReleaseBefore: return txn.release_before(first, pool_->config().num_groups - 1, length(first)).has_value();
    default: return apply_to_blocks(txn, op);
  }
}

template <class Evict>
std::string World<Evict>::abort_everywhere(std::span<const Op> ops) {
  struct Moment {
    Savepoint mark;
    std::uint64_t digest;
    std::size_t num_copies;
    Owner owner;
  };
  std::vector<Moment> moments;
  auto txn = pool_->begin();
  const auto run_from = [&](std::size_t at) {
    for (moments.resize(at); at < ops.size(); ++at) {
      moments.push_back({txn->mark(), pool_->digest(), txn->copies().size(), owner_});
      if (!apply(*txn, ops[at]) && pool_->digest() != moments.back().digest) return false;
    }
    return true;
  };
  if (!run_from(0)) return "a refused operation changed something";
  for (std::size_t at = ops.size(); at-- > 1;) {
    txn->rollback_to(moments[at].mark);
    owner_ = moments[at].owner;
    const bool same = pool_->digest() == moments[at].digest && txn->copies().size() == moments[at].num_copies;
    if (!same) return "rolled back to operation " + std::to_string(at) + ", the state differs";
    if (!run_from(at)) return "a refused operation changed something";
  }
  txn->abort();
  owner_ = moments[0].owner;
  if (pool_->digest() != moments[0].digest) return "after the abort the state differs";
  pool_->check_invariants();
  for (const SeqId seq : owner_.seqs) {
    if (!pool_->alive(seq)) return "a sequence did not survive the abort";
  }
  return "";
}

template <class Evict>
void World<Evict>::keep(std::span<const Op> ops) {
  auto txn = pool_->begin();
  for (const Op op : ops) apply(*txn, op);
  pool_->commit(txn->seal().value()).value();
  for (const SeqId seq : owner_.seqs) {
    const Tokens text = tokens_from(0, static_cast<std::size_t>(pool_->num_tokens(seq)));
    pool_->publish(seq, {.tokens = text, .partial_tail = true}).value();
  }
}

std::string words(std::span<const Op> ops) {
  std::string text;
  for (const Op op : ops) text += std::to_string(static_cast<int>(op)) + " ";
  return text;
}

/// Every string of at most `longest` operations, from one state. Returns how many there are.
template <class Evict>
std::int64_t try_all_strings(const BlockAllocatorConfig& config, Start start, std::size_t longest) {
  World<Evict> world{config, start};
  std::int64_t count = 0;
  for (std::size_t length = 1; length <= longest; ++length) {
    std::vector<Op> ops(length, Op::kCreate);
    for (std::size_t at = 0; at < length; ++count) {
      const std::string failure = world.abort_everywhere(ops);
      if (!failure.empty()) FAIL("start " << static_cast<int>(start) << ", operations " << words(ops) << ": " << failure);
      for (at = 0; at < length; ++at) {  // the next string
        ops[at] = static_cast<Op>((static_cast<std::size_t>(ops[at]) + 1) % kNumOps);
        if (ops[at] != Op::kCreate) break;
      }
    }
  }
  return count;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kLongest = 2;
constexpr std::uint32_t kRandomStrings = 20;
#else
constexpr std::size_t kLongest = 3;
constexpr std::uint32_t kRandomStrings = 150;
#endif
constexpr std::int64_t num_strings(std::size_t longest) {
  return longest == 0 ? 0 : static_cast<std::int64_t>(kNumOps) * (1 + num_strings(longest - 1));
}

}  // namespace

TEMPLATE_TEST_CASE("cache_alloc.abort.after_every_prefix_restores_the_state", "[cache_alloc]", Lru, CostAware) {
  for (const BlockAllocatorConfig& config : {one_group(), two_groups()}) {
    for (int start = 0; start < static_cast<int>(Start::kEnd); ++start) {
      // One operation more where sequences share blocks with each other and with the index.
      const bool rich = std::is_same_v<TestType, Lru> && config.num_groups == 1 && start == static_cast<int>(Start::kForked);
      const std::size_t longest = kLongest + (rich || night_run() ? 1 : 0);
      CHECK(try_all_strings<TestType>(config, static_cast<Start>(start), longest) == num_strings(longest));
    }
  }
}

TEMPLATE_TEST_CASE("cache_alloc.abort.of_long_random_strings_restores_the_state", "[cache_alloc]", Lru, CostAware) {
  const std::uint32_t count = night_run() ? 100 * kRandomStrings : kRandomStrings;
  std::printf("seeds 1 to %u\n", count);
  for (std::uint32_t seed = 1; seed <= count; ++seed) {
    std::mt19937 rng{seed};
    const auto start = static_cast<Start>(seed % static_cast<std::uint32_t>(Start::kEnd));
    World<TestType> world{seed % 2 == 0 ? one_group() : two_groups(), start};
    for (int round = 0; round < 3; ++round) {
      std::vector<Op> ops(60);
      for (Op& op : ops) op = static_cast<Op>(rng() % kNumOps);
      const std::string failure = world.abort_everywhere(ops);
      INFO("seed " << seed << ", operations " << words(ops) << ": " << failure);
      REQUIRE(failure.empty());
      if (start != Start::kStepsInFlight) world.keep(std::span{ops}.first(20));
    }
  }
}
