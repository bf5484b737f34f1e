/// \file WindowRunner: random transactions on sequences with windows, each operation done on the allocator and on NaiveWindows.
#pragma once

#include "cache_alloc/swarm_world.hpp"
#include "cache_alloc/window_model.hpp"

#include <random>

namespace kvpage_test {

class WindowRunner {
 public:
  using Allocator = kvpage::BlockAllocator<kvpage::NoIndex>;
  using Transaction = Allocator::Transaction;

  WindowRunner(std::uint64_t seed, Coverage& coverage)
      : rng_(seed), model_(model_of(rng_)), memory_(Allocator::required_bytes(config_of(model_))), allocator_(config_of(model_), memory_),
        coverage_(coverage) {}

  /// A transaction of some operations, which is committed or dropped. Throws Mismatch.
  void run_transaction() {
    const NaiveWindows before = model_;
    const auto ids_before = ids_;
    const std::uint64_t digest = allocator_.digest();
    auto txn = allocator_.begin();
    for (int n = below(6); n >= 0; --n) {
      operation(*txn);
      compare();
    }
    if (below(3) == 0) {
      txn->abort();
      model_ = before, ids_ = ids_before;
      require(allocator_.digest() == digest, "an abort restores the whole state");
    } else {
      require(txn->commit().has_value(), "a transaction without copies commits");
    }
    compare();
  }
  /// Everything ends: no block may be lost.
  void drain() {
    auto txn = allocator_.begin();
    for (const auto& [number, id] : ids_) require(txn->release(id).has_value(), "a live sequence ends");
    require(txn->commit().has_value(), "a transaction without copies commits");
    require_equal(allocator_.capacity().available(), model_.num_blocks, "available at the end");
  }

 private:
  static NaiveWindows model_of(std::mt19937_64& rng) {
    NaiveWindows model;
    model.block_size = 1 << rng() % 3;
    model.num_blocks = 10 + static_cast<int>(rng() % 14);
    model.max_seqs = 3;
    model.max_blocks = 6;
    model.windows = {0, 2 + static_cast<int>(rng() % 9)};
    return model;
  }
  static kvpage::BlockAllocatorConfig config_of(const NaiveWindows& model) {
    return {.num_blocks = model.num_blocks, .block_size = model.block_size, .max_seqs = model.max_seqs,
            .max_blocks_per_seq = model.max_blocks, .num_groups = NaiveWindows::kGroups,
            .window_tokens = {model.windows[0], model.windows[1]}};
  }
  int below(int bound) { return static_cast<int>(rng_() % static_cast<std::uint64_t>(bound)); }

  void operation(Transaction& txn) {
    if (ids_.empty() || below(8) == 0) return create(txn);
    auto it = ids_.begin();
    std::advance(it, below(static_cast<int>(ids_.size())));
    const auto [number, id] = *it;
    const int length = model_.seqs.at(number).num_tokens;
    switch (below(8)) {
      case 0: return fork(txn, number, id);
      case 1: return end(txn, number, id);
      case 2: {
        const int cut = length - below(length + 2) + below(2);
        static_cast<void>(agree("truncate", txn.truncate(id, cut), model_.truncate(number, cut)));
        return;
      }
      case 3:
      case 4: {
        const int group = below(4) - 1, next = below(3) == 0 ? below(length + 3) - 1 : length;
        const std::size_t used = model_.used().size();
        if (!agree("release_before", txn.release_before(id, group, next), model_.release_before(number, group, next))) return;
        if (model_.used().size() < used) ++coverage_[{"release_before", "blocks free"}];
        return;
      }
      default: {
        const int end = length + below(2 * model_.block_size + 2) - 1;
        static_cast<void>(agree("grow", txn.grow(id, end), model_.grow(number, end)));
      }
    }
  }
  void create(Transaction& txn) {
    if (agree("create", txn.create(), slot())) keep(NaiveWindows::Seq{});
  }
  void fork(Transaction& txn, int number, kvpage::SeqId id) {
    if (agree("fork", txn.fork(id), slot())) keep(NaiveWindows::Seq{model_.seqs.at(number)});
  }
  void end(Transaction& txn, int number, kvpage::SeqId id) {
    if (!agree("release", txn.release(id), {})) return;
    model_.seqs.erase(number), ids_.erase(number);
    require(txn.release_before(id, 0, 0).error().kind == kvpage::CacheRefusalKind::kDeadSeq, "an ended sequence has no window");
  }
  Outcome slot() const {
    const auto live = static_cast<int>(ids_.size());
    return live == model_.max_seqs ? Outcome{"kNoSeqSlot", live + 1, live} : Outcome{};
  }
  void keep(NaiveWindows::Seq seq) {
    model_.seqs[next_number_] = std::move(seq);
    ids_[next_number_++] = made_;
  }

  template <class R>
  bool agree(const char* op, const R& real, const Outcome& model) {
    ++coverage_[{op, real ? "done" : refusal_name(real.error().kind)}];
    require(real.has_value() == model.ok(), op);
    if (!real) {
      require(model.refusal == refusal_name(real.error().kind), "the same refusal");
      require_equal(real.error().need, model.need, "need");
      require_equal(real.error().available, model.available, "available");
      return false;
    }
    if constexpr (std::is_same_v<R, kvpage::CacheResult<kvpage::SeqId>>) made_ = *real;
    return true;
  }

  /// Tables, references and capacity; a cell is one block as long as it lives.
  void compare() {
    require_equal(allocator_.capacity().available(), model_.available(), "available");
    std::map<int, std::uint32_t> block_of;
    std::set<std::uint32_t> blocks;
    for (const auto& [number, seq] : model_.seqs) {
      for (int g = 0; g < NaiveWindows::kGroups; ++g) {
        const auto& cells = seq.cells[static_cast<std::size_t>(g)];
        const kvpage::BlockTable table = allocator_.table(ids_.at(number), g);
        require_equal(std::ssize(table.blocks), std::ssize(cells), "blocks of a table");
        require_equal(table.num_tokens, seq.num_tokens, "tokens");
        require_equal(table.first_live, seq.first_live(g), "the first live block");
        for (std::size_t b = 0; b < cells.size(); ++b) {
          require((table.blocks[b] == kvpage::kNoBlock) == (cells[b] == NaiveWindows::kGone), "what a window has passed is gone");
          if (cells[b] == NaiveWindows::kGone) continue;
          const auto [at, fresh] = block_of.emplace(cells[b], table.blocks[b].value);
          require(at->second == table.blocks[b].value, "a cell is one block");
          require(!fresh || blocks.insert(at->second).second, "live cells lie in different blocks");
          require_equal(allocator_.ref_count(table.blocks[b]), model_.refs(cells[b]), "references");
        }
      }
    }
    allocator_.check_invariants();
  }

  std::mt19937_64 rng_;
  NaiveWindows model_;
  std::vector<std::byte> memory_;
  Allocator allocator_;
  Coverage& coverage_;
  std::map<int, kvpage::SeqId> ids_;
  kvpage::SeqId made_{};
  int next_number_ = 0;
};

}  // namespace kvpage_test
