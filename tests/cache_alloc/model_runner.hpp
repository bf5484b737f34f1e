/// \file ModelRunner: does each operation on the allocator and on the model, and compares everything that can be seen.
#pragma once

#include "cache_alloc/model_ops.hpp"
#include "cache_alloc/model_world.hpp"
#include "cache_alloc/swarm_world.hpp"

#include <kvpage/cache/block_allocator.hpp>

#include <optional>

namespace kvpage_test {

/// A step id that was never given.
inline constexpr int kNoSuchStep = 9'999'999;

struct ModelSizes {
  int num_blocks = 10;
  int block_size = 4;
  int max_seqs = 4;
  int max_tokens = 14;  ///< per sequence: prefixes stay short strings
  int max_blocks = 0;   ///< per sequence; 0 = the pool's
  std::int64_t max_log_entries = 0;
  std::int64_t max_copies = 0;

  kvpage::BlockAllocatorConfig config() const {
    return {.num_blocks = num_blocks, .block_size = block_size, .max_seqs = max_seqs, .max_blocks_per_seq = max_blocks,
            .max_log_entries = max_log_entries, .max_copies = max_copies};
  }
};

template <class Allocator>
class ModelRunner {
 public:
  ModelRunner(const ModelSizes& sizes, const typename Allocator::IndexOptions& options, Coverage& coverage);

  void apply(const Op& op);
  void compare();
  /// Everything ends: no block may be lost.
  void drain();

 private:
  using Transaction = typename Allocator::Transaction;
  struct Sealed {
    kvpage::StepId id{};
    ModelWorld before;
    std::vector<ModelWorld::Copy> copies;
    std::map<int, int> lengths;
    std::set<int> touched;  ///< sequences that a direct commit changed since
    bool committed = false;
  };

  // -- model_runner_txn.hpp: operations of the open transaction
  void apply_txn(const Op& op);
  void create(const Op& op);
  void append(const Op& op);
  void truncate(const Op& op);
  void fork(const Op& op);
  void share(const Op& op, const kvpage::PrefixHit& hit, const std::string& text, bool fresh);
  bool model_share(int id, const NaiveCache::Hit& hit, const std::string& text);
  void share_refused(const Op& op);
  void create_unknown(const Op& op);
  void raw(const Op& op);
  // -- model_runner_step.hpp: steps, publish, pins, reset
  void seal();
  void commit_open();
  void abort_open();
  void commit_step(const Op& op);
  void abort_step(const Op& op);
  void retire(const Op& op);
  void restore_sequences(const Sealed& step);
  void publish(const Op& op);
  void pin(const Op& op);
  void unpin(const Op& op);
  void yield(const Op& op);
  void reset(const Op& op);
  void intern_any(const Op& op);
  void probe_order();
  void learn_order(std::size_t known);
  std::vector<std::uint32_t> read_order();
  void execute();
  void verify_content();
  void settle_pending(std::uint64_t step);

  // -- helpers
  kvpage::CacheResult<kvpage::NamespaceId> intern(int salt);
  bool open() const { return txn_.has_value(); }
  void close_mostly(const Op& op);
  int pick_seq(std::uint32_t x) const;
  std::string random_text(std::uint32_t bits, int length, std::uint32_t name_space) const;
  std::vector<kvpage::TokenId> tokens_of(const std::string& text) const;
  kvpage::PrefixHit real_match(const std::string& text) const;
  void learn(int cell, kvpage::BlockId block);
  template <class R>
  bool agree(const char* op, const R& real, const Outcome& model);
  void count(const char* op, const char* outcome) { ++coverage_[{op, outcome}]; }

  ModelSizes sizes_;
  std::vector<std::byte> memory_;
  Allocator allocator_;
  Coverage& coverage_;
  ShadowMemory shadow_;
  ModelWorld world_;
  ModelWorld before_;
  std::optional<Transaction> txn_;
  std::optional<std::pair<kvpage::Savepoint, ModelWorld>> mark_;
  std::uint64_t digest_before_ = 0;
  std::uint64_t digest_mark_ = 0;
  std::vector<Sealed> steps_;  ///< in flight, oldest first
  struct PinRecord {
    kvpage::PinId id;
    std::vector<int> cells;
    int priority;
  };
  std::vector<PinRecord> pins_;
  kvpage::PrefixHit saved_hit_;
  std::string saved_text_;
  bool order_unknown_ = false;
  bool draining_ = false;
  bool finished_ = false;  ///< the rest of the episode is skipped
};

template <class A>
ModelRunner<A>::ModelRunner(const ModelSizes& sizes, const typename A::IndexOptions& options, Coverage& coverage)
    : sizes_(sizes),
      memory_(A::required_bytes(sizes.config(), options)),
      allocator_(sizes.config(), memory_, options),
      coverage_(coverage),
      shadow_(sizes.num_blocks, sizes.block_size) {
  world_.cache.num_blocks = sizes.num_blocks;
  world_.cache.block_size = sizes.block_size;
  world_.cache.max_seqs = sizes.max_seqs;
  world_.cache.max_blocks = sizes.max_blocks;
  require_equal(intern(7).value().value, 1, "the second namespace");
}

/// The namespace of a salt of one byte.
template <class A>
kvpage::CacheResult<kvpage::NamespaceId> ModelRunner<A>::intern(int salt) {
  const auto byte = static_cast<std::byte>(salt);
  const kvpage::NamespaceField field{kvpage::NamespaceFieldType::kSalt, {&byte, 1}};
  return allocator_.intern({&field, 1});
}

template <class A>
int ModelRunner<A>::pick_seq(std::uint32_t x) const {
  if (world_.cache.seqs.empty()) return -1;
  auto it = world_.cache.seqs.begin();
  std::advance(it, x % world_.cache.seqs.size());
  return it->first;
}

template <class A>
std::string ModelRunner<A>::random_text(std::uint32_t bits, int length, std::uint32_t name_space) const {
  std::string text(1, static_cast<char>('A' + name_space % 2));
  for (int i = 0; i < length; ++i) {
    text += static_cast<char>('0' + (bits >> i & bits >> (i + 7) & bits >> (i + 13) & 1u));  // mostly zeros, so that texts meet
  }
  return text;
}

template <class A>
std::vector<kvpage::TokenId> ModelRunner<A>::tokens_of(const std::string& text) const {
  std::vector<kvpage::TokenId> tokens;
  for (std::size_t i = 1; i < text.size(); ++i) tokens.push_back(static_cast<kvpage::TokenId>(text[i]));
  return tokens;
}

/// Compares result and refusal numbers. A refusal for lack of log or copy room is accepted: the model has no such limit, and
/// `compare` shows that nothing changed. Returns whether the operation was done.
template <class A>
template <class R>
bool ModelRunner<A>::agree(const char* op, const R& real, const Outcome& model) {
  if (real.has_value()) {
    require(model.ok(), "the allocator did what the model refuses");
    count(op, "done");
    return true;
  }
  const kvpage::CacheRefusal& r = real.error();
  count(op, refusal_name(r.kind));
  if (r.kind == kvpage::CacheRefusalKind::kLogFull || r.kind == kvpage::CacheRefusalKind::kCopiesFull) {
    require(r.need > r.available, "a refusal names more than there is");
    return false;
  }
  if (model.ok()) throw Mismatch{std::string{op} + " refused: " + kvpage::describe(r.kind)};
  require(model.refusal == refusal_name(r.kind), "the same refusal");
  require_equal(r.need, model.need, "need");
  require_equal(r.available, model.available, "available");
  return false;
}

template <class A>
void ModelRunner<A>::learn(int cell, kvpage::BlockId block) {
  const auto [it, fresh] = world_.block_of.emplace(cell, block.value);
  require_equal(block.value, it->second, "the block of a cell");
}

template <class A>
void ModelRunner<A>::compare() {
  const NaiveCache& model = world_.cache;
  const kvpage::CapacitySnapshot now = allocator_.capacity();
  require_equal(now.clean, model.clean(), "clean");
  require_equal(now.cached, static_cast<std::int64_t>(model.lru.size()), "cached");
  require_equal(now.pending, static_cast<std::int64_t>(model.pending.size()), "pending");
  require_equal(now.num_seqs, static_cast<std::int64_t>(model.seqs.size()), "num_seqs");
  require(now.utilisation() >= 0 && now.utilisation() <= 1, "utilisation in [0, 1]");
  for (const auto& [id, seq] : model.seqs) {
    const kvpage::SeqId real = world_.seq_ids.at(id);
    require(allocator_.alive(real), "a live sequence is alive");
    require_equal(allocator_.num_tokens(real), seq.num_tokens(), "num_tokens");
    const auto table = allocator_.table(real).blocks;
    require_equal(static_cast<std::int64_t>(table.size()), static_cast<std::int64_t>(seq.cells.size()), "table size");
    for (std::size_t i = 0; i < table.size(); ++i) learn(seq.cells[i], table[i]);
  }
  std::set<std::uint32_t> blocks;
  const auto distinct = [&](int cell) { require(blocks.insert(world_.block_of.at(cell)).second, "live cells lie in different blocks"); };
  for (const int cell : model.used()) {
    distinct(cell);
    require_equal(allocator_.ref_count(kvpage::BlockId{world_.block_of.at(cell)}), model.refs(cell), "references");
  }
  for (const int cell : model.lru) distinct(cell);
  for (const auto& [step, cell] : model.pending) distinct(cell);
  allocator_.check_invariants();
}

template <class A>
kvpage::PrefixHit ModelRunner<A>::real_match(const std::string& text) const {
  const auto tokens = tokens_of(text);
  return allocator_.match({.name_space = kvpage::NamespaceId{static_cast<std::uint32_t>(text[0] - 'A')}, .tokens = tokens});
}

}  // namespace kvpage_test

#include "cache_alloc/model_runner_step.hpp"
#include "cache_alloc/model_runner_txn.hpp"
