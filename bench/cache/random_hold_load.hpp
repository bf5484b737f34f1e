/// \file RandomHoldLoad: one block starts per tick and ends after a random number of ticks, for any pool of blocks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace kvpage_bench {

/// `Pool` has a type Held, `Held take()`, `void drop(Held&&)` and `static std::uint32_t id(const Held&)`, ids below kPoolBlocks.
/// Hold times are uniform in [1, kMaxHold] ticks, so about half of kMaxHold blocks are held and zero, one or more end in a tick. A timer
/// wheel finds those: the loop costs the same for every pool. In the long run a tick is a pair: one block taken, one given back.
template <class Pool>
class RandomHoldLoad {
 public:
  static constexpr std::uint32_t kMaxHold = 4096;
  static constexpr std::uint32_t kPoolBlocks = kMaxHold + 1;  ///< more than can be held at one time

  explicit RandomHoldLoad(Pool& pool) : pool_(pool), due_(kMaxHold, kNone), held_(kPoolBlocks) { run(4 * kMaxHold); }

  void run(std::int64_t ticks) {
    for (std::int64_t i = 0; i < ticks; ++i) {
      std::uint32_t id = std::exchange(due_[tick_++ % kMaxHold], kNone);
      for (; id != kNone; id = held_[id].next) pool_.drop(std::move(held_[id].block));
      auto block = pool_.take();
      id = Pool::id(block);
      held_[id].block = std::move(block);
      held_[id].next = std::exchange(due_[(tick_ + random() % kMaxHold) % kMaxHold], id);
    }
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFFu;
  struct Entry {
    typename Pool::Held block{};
    std::uint32_t next = kNone;  ///< ends in the same tick
  };

  /// Source: Marsaglia, "Xorshift RNGs", 2003.
  std::uint32_t random() noexcept {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 32);
  }

  Pool& pool_;
  std::vector<std::uint32_t> due_;  // [kMaxHold]: first block that ends in that tick
  std::vector<Entry> held_;         // [kPoolBlocks]
  std::uint64_t state_ = 88'172'645'463'325'252u;
  std::uint32_t tick_ = 0;
};

}  // namespace kvpage_bench
