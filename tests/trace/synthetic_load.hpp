/// \file SyntheticLoad: seeded requests on a real allocator: shared prefixes, chunks, forks, two steps in flight, aborts, pins, resets.
#pragma once

#include <kvpage/cache/block_allocator.hpp>

#include <deque>
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

template <class Allocator>
class SyntheticLoad {
 public:
  SyntheticLoad(const LoadOptions& options, std::uint64_t seed)
      : o_(options), rng_(seed), memory_(Allocator::required_bytes(config(), index())), allocator_(config(), memory_, index()) {}

  Allocator& allocator() { return allocator_; }

  /// Plans and seals one step, and settles an older one.
  void step() {
    auto txn = allocator_.begin();
    admit(*txn);
    for (LoadedSeq& s : live_) grow(*txn, s);
    if (o_.rare_events) rare(*txn);
    const auto step = txn->seal();
    if (!step) std::abort();
    flying_.push_back(*step);
    if (o_.rare_events && one_in(25)) return abort_newest();
    if (flying_.size() == 2 || one_in(2)) settle_oldest();
    if (!flying_.empty() && one_in(3)) settle_oldest();
  }
  /// Ends everything.
  void drain() {
    while (!flying_.empty()) settle_oldest();
    auto txn = allocator_.begin();
    for (const LoadedSeq& s : live_) txn->release(s.seq).value();
    for (kvpage::BlockRef& ref : refs_) txn->free_block(std::move(ref)).value();
    txn->commit().value();
    live_.clear(), refs_.clear();
    for (const kvpage::PinId pin : pins_) static_cast<void>(allocator_.unpin(pin));
    pins_.clear();
  }

 private:
  kvpage::BlockAllocatorConfig config() const {
    return {.num_blocks = o_.num_blocks, .block_size = o_.block_size, .max_seqs = o_.max_seqs};
  }
  static typename Allocator::IndexOptions index() { return typename Allocator::IndexOptions{kvpage::SipSecret{1, 2}}; }
  bool one_in(std::uint64_t n) { return rng_() % n == 0; }

  void admit(typename Allocator::Transaction& txn) {
    if (static_cast<std::int64_t>(live_.size()) >= o_.max_seqs || !one_in(2)) return;
    LoadedSeq s;
    const auto prefix = static_cast<kvpage::TokenId>(rng_() % static_cast<std::uint64_t>(o_.num_prefixes));
    const auto length = 1 + static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(o_.longest_tokens));
    const std::int64_t common = one_in(3) ? length : length * 3 / 4;
    for (std::int64_t i = 0; i < length; ++i) {
      s.tokens.push_back(i < common ? prefix * 100'000 + static_cast<kvpage::TokenId>(i) : static_cast<kvpage::TokenId>(rng_() % 50));
    }
    const auto before = txn.mark();
    s.seq = txn.create().value();
    const auto shared = txn.share(s.seq, allocator_.match({.tokens = s.tokens, .max_tokens = length - 1}));
    s.computed = shared ? shared->num_tokens : 0;
    if (txn.grow(s.seq, std::min(length, s.computed + o_.chunk_tokens))) {
      live_.push_back(std::move(s));
    } else {
      txn.rollback_to(before);
    }
  }

  void grow(typename Allocator::Transaction& txn, LoadedSeq& s) {
    const auto length = static_cast<std::int64_t>(s.tokens.size());
    const std::int64_t next = std::min(length, s.computed + o_.chunk_tokens);
    const std::int64_t reserved = allocator_.num_tokens(s.seq);
    if (next == s.computed || !txn.make_writable(s.seq, std::min(s.computed, reserved), reserved)) return;
    if (txn.grow(s.seq, next)) s.computed = next;
  }

  void rare(typename Allocator::Transaction& txn) {
    if (one_in(20) && !live_.empty() && static_cast<std::int64_t>(live_.size()) < o_.max_seqs) {
      const LoadedSeq& parent = live_[rng_() % live_.size()];
      if (const auto child = txn.fork(parent.seq)) live_.push_back({*child, parent.tokens, parent.computed});
    }
    if (one_in(10)) {
      if (auto ref = txn.allocate_block()) refs_.push_back(std::move(*ref));
    }
    if (one_in(10) && !refs_.empty()) {
      txn.free_block(std::move(refs_.back())).value();
      refs_.pop_back();
    }
    if (one_in(10) && !live_.empty()) {  // ends and starts in one step: two sequences of one slot
      txn.release(live_.back().seq).value();
      live_.pop_back();
      if (const auto seq = txn.create()) txn.release(*seq).value();
    }
  }

  /// Everything of an aborted step starts again from what the allocator still knows.
  void abort_newest() {
    allocator_.abort(flying_.back()).value();
    flying_.pop_back();
    std::erase_if(live_, [&](const LoadedSeq& s) { return !allocator_.alive(s.seq); });
    refs_.clear();
    for (LoadedSeq& s : live_) s.computed = std::min(s.computed, allocator_.num_tokens(s.seq));
  }

  void settle_oldest() {
    allocator_.commit(flying_.front(), false).value();
    for (const LoadedSeq& s : live_) {
      if (flying_.size() > 1) break;  // the newer step's tokens are not committed
      const auto known = static_cast<std::size_t>(std::min(s.computed, allocator_.num_tokens(s.seq)));
      allocator_.publish(s.seq, {.tokens = std::span(s.tokens).first(known), .partial_tail = known == s.tokens.size()}).value();
    }
    allocator_.retire(flying_.front()).value();
    flying_.pop_front();
    if (flying_.empty()) finish_some();
  }

  void finish_some() {
    auto txn = allocator_.begin();
    for (std::size_t i = live_.size(); i-- > 0;) {
      if (live_[i].computed < static_cast<std::int64_t>(live_[i].tokens.size()) && !one_in(50)) continue;
      txn->release(live_[i].seq).value();
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    txn->commit().value();
    if (o_.rare_events) rare_between_steps();
  }

  void rare_between_steps() {
    if (one_in(20) && !live_.empty()) {
      const auto& tokens = live_[rng_() % live_.size()].tokens;
      if (const auto pin = allocator_.pin(allocator_.match({.tokens = tokens}))) pins_.push_back(*pin);
    }
    if (one_in(30) && !pins_.empty()) {
      static_cast<void>(allocator_.unpin(pins_.back()));
      pins_.pop_back();
    }
    if (one_in(200)) allocator_.reset(kvpage::CacheReset::kDetach).value(), pins_.clear();
  }

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
