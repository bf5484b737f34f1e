/// \file SwarmRunner: random operations on allocators of many shapes. The oracle is content: every live block must hold exactly the K/V of
/// its sequence's text; a refusal, an abort and a rollback must leave the digest alone; the invariants hold after every operation.
#pragma once

#include "cache_alloc/swarm_world.hpp"

#include <optional>

namespace kvpage_test {

template <class Allocator>
class SwarmRunner {
 public:
  SwarmRunner(const SwarmConfig& config, const typename Allocator::IndexOptions& options, std::uint64_t seed, Coverage& coverage)
      : config_(config), options_(limit(options, config)), memory_(Allocator::required_bytes(config.sizes, options_)),
        allocator_(config.sizes, memory_, options_), shadow_(config.sizes), coverage_(coverage), rng_(seed) {
    const std::byte salt{7};
    const kvpage::NamespaceField field{kvpage::NamespaceFieldType::kSalt, {&salt, 1}};
    require_equal(allocator_.intern({&field, 1}).value().value, 1, "the second namespace");
  }

  void step() {
    const auto draw = rng_() % 32;
    if (draw < 18) {
      if (!txn_) begin();
      in_transaction(draw);
    } else if (draw < 24) {
      finish_transaction();
    } else {
      if (txn_ && draw % 4 != 0) finish_transaction();
      between(rng_() % 16);
    }
    allocator_.check_invariants();
    if (!txn_) verify();
  }
  void drain();

 private:
  using Transaction = typename Allocator::Transaction;

  static typename Allocator::IndexOptions limit(typename Allocator::IndexOptions options, const SwarmConfig& config) {
    options.max_nodes = config.max_nodes;
    options.token_granule = config.token_granule;
    options.portable_keys = config.portable_keys;
    options.max_namespaces = 3;
    options.namespace_bytes = 40;
    return options;
  }

  // -- swarm_transaction.hpp: inside of a transaction
  void begin();
  void finish_transaction();
  void in_transaction(std::uint64_t draw);
  void start();
  void append(SwarmSeq& seq);
  void rewrite(SwarmSeq& seq);
  void truncate(SwarmSeq& seq);
  void fork(const SwarmSeq& seq);
  void slide(SwarmSeq& seq);
  void release(std::size_t at);
  void raw();
  void mark_or_roll_back();
  void rewritten_from(SwarmSeq& seq, std::int64_t token);
  void execute(std::span<const kvpage::CopyOp> copies);
  void note_rewrites();
  void seal();
  void commit_directly();
  // -- swarm_probes.hpp: between transactions, and what must be refused whenever it is tried
  void between(std::uint64_t draw);
  void settle();
  void abort_step();
  void publish(SwarmSeq& seq);
  void pin(const SwarmSeq& seq);
  void probe_transaction();
  void probe_between();
  void probe_names();

  // -- helpers
  std::int64_t below(std::int64_t limit) { return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(limit)); }
  SwarmSeq& any() { return seqs_[static_cast<std::size_t>(below(static_cast<std::int64_t>(seqs_.size())))]; }
  Tokens random_text() {
    Tokens text(static_cast<std::size_t>(1 + below(config_.max_tokens)));
    for (auto& token : text) token = rng_() % 8 == 0 ? 1u : 0u;  // mostly zeros, so that texts meet
    return text;
  }
  std::vector<kvpage::BlockExtra> extras(std::uint32_t id) const {
    return id == 0 ? std::vector<kvpage::BlockExtra>{} : std::vector<kvpage::BlockExtra>{{.block_index = 0, .id = id}};
  }
  void count(const char* op, const char* outcome) { ++coverage_[{op, outcome}]; }

  /// Does `call`; when it is refused the digest must be what it was. `allowed`: whether this kind can happen here.
  template <class Call>
  auto tried(const char* op, Call&& call) {
    const std::uint64_t before = allocator_.digest();
    auto result = call();
    count(op, result ? "done" : refusal_name(result.error().kind));
    if (!result) require(allocator_.digest() == before, "a refusal changes nothing");
    return result;
  }
  template <class Result>
  void refused(const char* op, const Result& result, kvpage::CacheRefusalKind kind) {
    require(!result.has_value(), op);
    if (result.error().kind == kvpage::CacheRefusalKind::kLogFull) return count(op, "kLogFull");
    require_equal(static_cast<std::int64_t>(result.error().kind), static_cast<std::int64_t>(kind), op);
    count(op, refusal_name(kind));
  }

  /// Every written token that has a place lies there.
  void verify() {
    for (const SwarmSeq& seq : seqs_) {
      require(allocator_.alive(seq.id), "a live sequence is alive");
      require_equal(allocator_.num_tokens(seq.id), static_cast<std::int64_t>(seq.text.size()), "num_tokens");
      if (allocator_.content_lost(seq.id)) continue;
      for (std::int64_t g = 0; g < config_.sizes.num_groups; ++g) {
        const auto table = allocator_.table(seq.id, g);
        for (std::int64_t t = table.first_live * config_.sizes.block_size; t < seq.written; ++t) {
          const kvpage::BlockId block = table.blocks[static_cast<std::size_t>(t / config_.sizes.block_size)];
          require(shadow_.at(block, t % config_.sizes.block_size) == SwarmMemory::content(seq, g, t), "a block holds its text's K/V");
        }
      }
    }
  }

  SwarmConfig config_;
  typename Allocator::IndexOptions options_;
  std::vector<std::byte> memory_;
  Allocator allocator_;
  SwarmMemory shadow_;
  Coverage& coverage_;
  std::mt19937_64 rng_;
  std::optional<Transaction> txn_;
  std::uint64_t digest_before_ = 0;
  std::vector<SwarmSeq> before_;
  std::vector<std::pair<kvpage::BlockId, std::uint32_t>> refs_before_;
  struct Mark {
    kvpage::Savepoint point;
    std::uint64_t digest;
    std::vector<SwarmSeq> seqs;
    std::vector<std::pair<kvpage::BlockId, std::uint32_t>> refs;
  };
  std::optional<Mark> mark_;
  std::vector<SwarmSeq> seqs_;
  std::vector<std::pair<kvpage::BlockId, std::uint32_t>> refs_;  ///< block and generation
  std::map<kvpage::SeqId, std::int64_t> rewritten_;             ///< by the open transaction
  std::vector<SwarmStep> steps_;                                ///< in flight, oldest first
  std::vector<std::vector<std::pair<kvpage::BlockId, std::uint32_t>>> refs_at_;  ///< before each of them
  std::vector<kvpage::PinId> pins_;
  kvpage::SeqId dead_{};
  kvpage::PrefixHit old_hit_{};
  std::int64_t clock_ns_ = 1;
};

template <class A>
void SwarmRunner<A>::drain() {
  if (txn_) finish_transaction();
  while (!steps_.empty()) settle();
  const auto alone = [&](auto&& change) {
    begin();
    change();
    txn_->commit().value();
    txn_.reset();
  };
  for (const SwarmSeq& seq : seqs_) alone([&] { txn_->release(seq.id).value(); });
  for (const auto& held : refs_) {
    alone([&] { txn_->free_block(kvpage::BlockRef{held.first, held.second}).value(); });
  }
  for (const kvpage::PinId pin : pins_) static_cast<void>(allocator_.unpin(pin).has_value());
  allocator_.check_invariants();
  require_equal(allocator_.capacity().available(), config_.sizes.num_blocks, "after a drain every block is available");
}

}  // namespace kvpage_test

#include "cache_alloc/swarm_transaction.hpp"
