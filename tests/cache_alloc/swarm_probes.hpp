/// \file SwarmRunner: operations between transactions, and calls that must be refused whatever the state is.
#pragma once

#include "cache_alloc/swarm_runner.hpp"

namespace kvpage_test {

template <class A>
void SwarmRunner<A>::between(std::uint64_t draw) {
  if (draw < 6) return settle();
  if (draw == 6) return probe_between();
  if (draw == 7 && rng_() % 2 == 0) return probe_names();
  if (draw == 8) return abort_step();
  if (draw == 9 && rng_() % 16 == 0) {
    const bool detach = rng_() % 2 == 0;
    if (!tried("reset", [&] { return allocator_.reset(detach ? kvpage::CacheReset::kDetach : kvpage::CacheReset::kIfIdle); })) return;
    pins_.clear();
    return;
  }
  if (draw == 10) {
    const auto ended = tried("yield", [&] { return allocator_.yield_pins(below(config_.sizes.num_blocks + 1)); });
    if (ended && *ended > 0) {
      count("yield", "pin yields");
      std::erase_if(pins_, [&](kvpage::PinId id) { return allocator_.unpin(id).has_value(); });
      pins_.clear();
    }
    return;
  }
  if (draw == 11) {
    static_cast<void>(tried("expire", [&] { return allocator_.expire(clock_ns_ += below(50)); }).has_value());
    return;
  }
  if (seqs_.empty()) return;
  if (draw == 12) return pin(any());
  publish(any());
}

/// Commits the oldest sealed step, or retires the oldest committed one.
template <class A>
void SwarmRunner<A>::settle() {
  if (txn_ || steps_.empty()) return;
  const auto first = std::find_if(steps_.begin(), steps_.end(), [](const SwarmStep& s) { return !s.committed; });
  const bool only_retire = steps_[0].committed && (first == steps_.end() || rng_() % 2 == 0);
  if (!only_retire) {
    const bool retire = first == steps_.begin() && rng_() % 2 == 0;
    allocator_.commit(first->id, retire).value();
    count("commit_step", "done");
    for (SwarmSeq& seq : seqs_) {
      const auto length = first->lengths.find(seq.id);
      if (length != first->lengths.end()) seq.committed = std::max(seq.committed, std::min(length->second, seq.written));
    }
    first->committed = true;
    if (!retire) return;
  } else {
    allocator_.retire(steps_[0].id).value();
    count("retire", "done");
  }
  steps_.erase(steps_.begin());
  refs_at_.erase(refs_at_.begin());
}

/// Sequences are what they were before the step, except that direct commits since then may have shortened or ended them. Whatever the step
/// wrote, each of them holds its old content, or the allocator says that it is lost: `verify` compares.
template <class A>
void SwarmRunner<A>::abort_step() {
  if (txn_ || steps_.empty() || steps_.back().committed) return;
  const SwarmStep step = std::move(steps_.back());
  const std::vector<SwarmSeq> now = std::move(seqs_);
  steps_.pop_back();
  allocator_.abort(step.id).value();
  count("abort after seal", "done");
  seqs_.clear();
  for (SwarmSeq seq : step.before) {
    if (!allocator_.alive(seq.id)) continue;  // released by a direct commit
    seq.text.resize(static_cast<std::size_t>(allocator_.num_tokens(seq.id)));
    const auto still = std::find_if(now.begin(), now.end(), [&](const SwarmSeq& s) { return s.id == seq.id; });
    if (still != now.end()) seq.committed = still->committed;
    seq.written = std::min(seq.written, static_cast<std::int64_t>(seq.text.size()));
    seq.committed = std::min(seq.committed, seq.written);
    if (allocator_.content_lost(seq.id)) count("abort after seal", "content lost");
    seqs_.push_back(std::move(seq));
  }
  refs_ = refs_at_.back();
  refs_at_.pop_back();
}

template <class A>
void SwarmRunner<A>::publish(SwarmSeq& seq) {
  const auto extra = extras(seq.extra);
  const Tokens tokens(seq.text.begin(), seq.text.begin() + static_cast<std::ptrdiff_t>(seq.committed));
  const kvpage::PublishArgs args{.tokens = tokens, .extras = extra,
                                 .retention = {.priority = static_cast<std::uint8_t>(rng_() % 101),
                                               .expires_at_ns = below(2) * (clock_ns_ + below(100)), .recompute_ns_per_block = below(1000)},
                                 .partial_tail = rng_() % 2 == 0};
  const bool idle = !txn_.has_value();
  const auto done = tried("publish", [&] { return allocator_.publish(seq.id, args); });
  require(done.has_value() == idle, "publish is refused only inside of a transaction");
}

template <class A>
void SwarmRunner<A>::pin(const SwarmSeq& seq) {
  const auto extra = extras(seq.extra);
  const auto hit = allocator_.match({.name_space = kvpage::NamespaceId{seq.name_space}, .tokens = seq.text, .extras = extra});
  const std::int64_t expires_at_ns = below(2) * (clock_ns_ + below(100));
  const auto id = tried("pin", [&] { return allocator_.pin(hit, static_cast<std::uint8_t>(rng_() % 3), expires_at_ns); });
  if (id) pins_.push_back(*id);
  if (pins_.empty() || rng_() % 2 == 0) return;
  const kvpage::PinId some = pins_[static_cast<std::size_t>(below(static_cast<std::int64_t>(pins_.size())))];
  static_cast<void>(tried("unpin", [&] { return allocator_.unpin(some); }).has_value());  // it may have yielded or expired
}

template <class A>
void SwarmRunner<A>::probe_transaction() {
  using enum kvpage::CacheRefusalKind;
  const std::uint64_t before = allocator_.digest();
  const kvpage::SeqId nobody{7, 0};
  refused("begin", allocator_.begin(), kBusy);
  refused("create", txn_->create(kvpage::NamespaceId{99}), seqs_.size() == 3 ? kNoSeqSlot : kBadNamespace);
  for (const kvpage::SeqId gone : {nobody, dead_}) {
    if (allocator_.alive(gone)) continue;  // an abort brought it back
    refused("append", txn_->grow(gone, 1), kDeadSeq);
    refused("make_writable", txn_->make_writable(gone, 0, 1), kDeadSeq);
    refused("truncate", txn_->truncate(gone, 0), kDeadSeq);
    refused("fork", txn_->fork(gone), kDeadSeq);
    refused("release", txn_->release(gone), kDeadSeq);
    refused("release_before", txn_->release_before(gone, 0, 0), kDeadSeq);
    refused("share", txn_->share(gone, old_hit_), kDeadSeq);
  }
  refused("raw_free", txn_->free_block(kvpage::BlockRef{}), kNotHeld);
  refused("raw_share", txn_->share_block(kvpage::BlockRef{kvpage::BlockId{0}, 0xFFFF'FFFFu}), kNotHeld);
  refused("unref", txn_->unref(std::vector<kvpage::BlockId>{kvpage::kNoBlock}), kNotHeld);
  const SwarmSeq& seq = any();
  const auto length = static_cast<std::int64_t>(seq.text.size());
  refused("append", txn_->grow(seq.id, -1), kBadLength);
  refused("truncate", txn_->truncate(seq.id, length + 1), kBadLength);
  refused("truncate", txn_->truncate(seq.id, -1), kBadLength);
  refused("make_writable", txn_->make_writable(seq.id, -1, 0), kBadLength);
  refused("make_writable", txn_->make_writable(seq.id, 1, 0), kBadLength);
  refused("make_writable", txn_->make_writable(seq.id, 0, length + 1), kBadLength);
  refused("release_before", txn_->release_before(seq.id, -1, 0), kBadLength);
  refused("release_before", txn_->release_before(seq.id, 0, -1), kBadLength);
  refused("release_before", txn_->release_before(seq.id, 0, length + 1), kBadLength);
  require(txn_->grow(seq.id, length).has_value() && txn_->make_writable(seq.id, length, length).has_value(), "nothing to do is done");
  if (length > 0) refused("share", txn_->share(seq.id, old_hit_), kNotEmpty);
  const kvpage::Savepoint point = txn_->mark();
  if (const auto fresh = txn_->create(kvpage::NamespaceId{1})) {
    kvpage::PrefixHit foreign = allocator_.match({.name_space = kvpage::NamespaceId{0}, .tokens = seq.text});
    refused("share", txn_->share(*fresh, foreign), kBadNamespace);
    old_hit_.name_space = kvpage::NamespaceId{1};
    const auto stale = tried("share_stale", [&] { return txn_->share(*fresh, old_hit_); });
    static_cast<void>(stale.has_value());
  }
  txn_->rollback_to(point);
  require(allocator_.digest() == before, "refused calls change nothing");
}

template <class A>
void SwarmRunner<A>::probe_between() {
  using enum kvpage::CacheRefusalKind;
  const std::uint64_t before = allocator_.digest();
  const bool open = txn_.has_value();
  const kvpage::StepId never{9'999'999};
  refused("commit_step", allocator_.commit(never), open ? kBusy : kOutOfOrder);
  refused("retire", allocator_.retire(never), open ? kBusy : kOutOfOrder);
  refused("abort_step", allocator_.abort(never), open ? kBusy : kOutOfOrder);
  if (steps_.size() == 2 && !open) refused("abort_step", allocator_.abort(steps_[0].id), kOutOfOrder);
  if (steps_.size() == 2 && !open && !steps_[0].committed) refused("commit_step", allocator_.commit(steps_[1].id), kOutOfOrder);
  if (steps_.size() == 2 && !open && steps_[0].committed && !steps_[1].committed) {
    refused("commit_step", allocator_.commit(steps_[1].id, true), kOutOfOrder);
  }
  refused("publish", allocator_.publish(kvpage::SeqId{7, 0}, {}), open ? kBusy : kDeadSeq);
  if (!seqs_.empty() && !open) {
    Tokens longer = seqs_[0].text;
    longer.push_back(0);
    refused("publish", allocator_.publish(seqs_[0].id, {.tokens = longer}), kBadLength);
  }
  refused("unpin", allocator_.unpin(kvpage::PinId{}), open ? kBusy : kNotHeld);
  refused("pin", allocator_.pin(kvpage::PrefixHit{}), open ? kBusy : kStaleHit);
  if (open) refused("yield", allocator_.yield_pins(1), kBusy);
  if (open) refused("expire", allocator_.expire(1), kBusy);
  if (open) refused("reset", allocator_.reset(kvpage::CacheReset::kDetach), kBusy);
  require(allocator_.copies(never).empty(), "a step that never was has no copies");
  require(allocator_.match({.name_space = kvpage::NamespaceId{99}, .tokens = {}}).num_tokens == 0, "an unknown namespace has no prefixes");
  require(allocator_.digest() == before, "refused calls change nothing");
}

/// Limits of namespaces: fields, bytes, repeats, and how many there can be.
template <class A>
void SwarmRunner<A>::probe_names() {
  using enum kvpage::CacheRefusalKind;
  using Type = kvpage::NamespaceFieldType;
  const std::vector<std::byte> bytes(257, std::byte{7});
  const auto field = [&](Type type, std::size_t size) { return kvpage::NamespaceField{type, std::span{bytes}.first(size)}; };
  const std::vector nine(9, field(Type::kUser, 1)), twice(2, field(Type::kUser, 1)), long_one{field(Type::kSalt, 257)};
  refused("intern", allocator_.intern(nine), kBadNamespace);
  refused("intern", allocator_.intern(twice), kBadNamespace);
  refused("intern", allocator_.intern(long_one), kBadNamespace);
  refused("intern", allocator_.intern(std::vector{field(Type::kSalt, 40)}), kNoNamespace);  // the bytes do not fit
  const std::vector both{field(Type::kAdapter, 1), field(Type::kModel, 1)}, turned{both[1], both[0]};
  require(allocator_.intern(both).value() == allocator_.intern(turned).value(), "the order of fields does not matter");
  refused("intern", allocator_.intern(std::vector{field(Type::kUser, 2)}), kNoNamespace);
  require_equal(allocator_.intern(std::vector{field(Type::kSalt, 1)}).value().value, 1, "an interned namespace keeps its id");
}

}  // namespace kvpage_test
