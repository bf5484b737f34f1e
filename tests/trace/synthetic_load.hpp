/// \file SyntheticLoad: seeded requests on a real allocator: shared prefixes, chunks, forks, two steps in flight, aborts, pins, resets.
#pragma once

#include <kvpage/cache/block_allocator.hpp>

#include <deque>
#include <functional>
#include <random>
#include <vector>

namespace kvpage_test {

struct LoadOptions {
  std::int64_t num_blocks = 64;
  std::int64_t block_size = 16;
  std::int64_t max_seqs = 16;
  std::int64_t chunk_tokens = 64;
  std::int64_t longest_tokens = 300;
  std::int64_t num_prefixes = 4;
  bool rare_events = true;  ///< aborts, pins, resets, references outside of tables
};

/// One sequence on its way.
struct LoadedSeq {
  kvpage::SeqId seq;
  std::vector<kvpage::TokenId> tokens;
  std::int64_t computed = 0;
};

/// Hands events to whoever asks for them.
struct FunctionSink {
  static constexpr bool kEnabled = true;
  std::function<void(const kvpage::CacheEvent&)> to;
  void on_event(const kvpage::CacheEvent& event) {
    if (to) to(event);
  }
};

class SyntheticLoad {
 public:
  using Allocator = kvpage::BlockAllocator<kvpage::PrefixIndex<>, kvpage::Lru, FunctionSink>;

  /// `sink` gets the events from the first on.
  SyntheticLoad(const LoadOptions& options, std::uint64_t seed, std::function<void(const kvpage::CacheEvent&)> sink);

  Allocator& allocator() { return allocator_; }

  /// Plans and seals one step, and settles an older one.
  void step();
  /// Ends everything.
  void drain();

 private:
  bool one_in(std::uint64_t n) { return rng_() % n == 0; }
  void admit(Allocator::Transaction& txn);
  void grow(Allocator::Transaction& txn, LoadedSeq& s);
  void rare(Allocator::Transaction& txn);
  void abort_newest();
  void settle_oldest();
  void finish_some();
  void rare_between_steps();

  LoadOptions o_;
  std::mt19937_64 rng_;
  std::vector<std::byte> memory_;
  Allocator allocator_;
  std::vector<LoadedSeq> live_;
  std::deque<kvpage::StepId> flying_;
  std::vector<kvpage::BlockRef> refs_;
  std::vector<kvpage::PinId> pins_;
};

}  // namespace kvpage_test
