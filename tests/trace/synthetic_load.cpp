#include "trace/synthetic_load.hpp"

#include <algorithm>

namespace kvpage_test {

using namespace kvpage;

namespace {

BlockAllocatorConfig config(const LoadOptions& o) {
  return {.num_blocks = o.num_blocks, .block_size = o.block_size, .max_seqs = o.max_seqs};
}
PrefixIndexOptions<> index_options() { return PrefixIndexOptions<>{SipSecret::fixed(1, 2)}; }

}  // namespace

SyntheticLoad::SyntheticLoad(const LoadOptions& options, std::uint64_t seed, std::function<void(const CacheEvent&)> sink)
    : o_(options),
      rng_(seed),
      memory_(Allocator::required_bytes(config(options), index_options())),
      allocator_(config(options), memory_, index_options(), Lru{}, FunctionSink{std::move(sink)}) {}

void SyntheticLoad::step() {
  auto txn = allocator_.begin();
  admit(*txn);
  for (LoadedSeq& s : live_) grow(*txn, s);
  if (o_.rare_events) rare(*txn);
  const auto step = txn->seal();
  flying_.push_back(step.value());
  if (o_.rare_events && one_in(25)) return abort_newest();
  if (flying_.size() == 2 || one_in(2)) settle_oldest();
  if (!flying_.empty() && one_in(3)) settle_oldest();
}

void SyntheticLoad::drain() {
  while (!flying_.empty()) settle_oldest();
  auto txn = allocator_.begin();
  for (const LoadedSeq& s : live_) txn->release(s.seq).value();
  for (BlockRef& ref : refs_) txn->free_block(std::move(ref)).value();
  txn->commit().value();
  live_.clear(), refs_.clear();
  for (const PinId pin : pins_) static_cast<void>(allocator_.unpin(pin));
  pins_.clear();
}

void SyntheticLoad::admit(Allocator::Transaction& txn) {
  if (static_cast<std::int64_t>(live_.size()) >= o_.max_seqs || !one_in(2)) return;
  LoadedSeq s;
  const auto prefix = static_cast<TokenId>(rng_() % static_cast<std::uint64_t>(o_.num_prefixes));
  const auto length = 1 + static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(o_.longest_tokens));
  const std::int64_t common = one_in(3) ? length : length * 3 / 4;
  for (std::int64_t i = 0; i < length; ++i) {
    s.tokens.push_back(i < common ? prefix * 100'000 + static_cast<TokenId>(i) : static_cast<TokenId>(rng_() % 50));
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

void SyntheticLoad::grow(Allocator::Transaction& txn, LoadedSeq& s) {
  const auto length = static_cast<std::int64_t>(s.tokens.size());
  const std::int64_t next = std::min(length, s.computed + o_.chunk_tokens);
  const std::int64_t reserved = allocator_.num_tokens(s.seq);
  if (next == s.computed || !txn.make_writable(s.seq, std::min(s.computed, reserved), reserved)) return;
  if (txn.grow(s.seq, next)) s.computed = next;
}

void SyntheticLoad::rare(Allocator::Transaction& txn) {
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
void SyntheticLoad::abort_newest() {
  allocator_.abort(flying_.back()).value();
  flying_.pop_back();
  std::erase_if(live_, [&](const LoadedSeq& s) { return !allocator_.alive(s.seq); });
  refs_.clear();
  for (LoadedSeq& s : live_) s.computed = std::min(s.computed, allocator_.num_tokens(s.seq));
}

void SyntheticLoad::settle_oldest() {
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

void SyntheticLoad::finish_some() {
  auto txn = allocator_.begin();
  for (std::size_t i = live_.size(); i-- > 0;) {
    if (live_[i].computed < static_cast<std::int64_t>(live_[i].tokens.size()) && !one_in(50)) continue;
    txn->release(live_[i].seq).value();
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  txn->commit().value();
  if (o_.rare_events) rare_between_steps();
}

void SyntheticLoad::rare_between_steps() {
  if (one_in(20) && !live_.empty()) {
    const auto& tokens = live_[rng_() % live_.size()].tokens;
    if (const auto pin = allocator_.pin(allocator_.match({.tokens = tokens}))) pins_.push_back(*pin);
  }
  if (one_in(30) && !pins_.empty()) {
    static_cast<void>(allocator_.unpin(pins_.back()));
    pins_.pop_back();
  }
  if (one_in(200)) allocator_.reset(CacheReset::kDetach).value(), pins_.clear();
}

}  // namespace kvpage_test
