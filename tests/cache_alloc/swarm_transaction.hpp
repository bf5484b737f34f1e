/// \file SwarmRunner: operations of the open transaction, and how it ends.
#pragma once

#include "cache_alloc/swarm_runner.hpp"

namespace kvpage_test {

template <class A>
void SwarmRunner<A>::begin() {
  digest_before_ = allocator_.digest();
  before_ = seqs_;
  refs_before_ = refs_;
  rewritten_.clear();
  mark_.reset();
  txn_.emplace(allocator_.begin().value());
}

template <class A>
void SwarmRunner<A>::in_transaction(std::uint64_t draw) {
  if (draw < 3 || seqs_.empty()) return start();
  switch (draw) {
    case 3:
    case 4:
    case 5:
    case 6:
    case 7: return append(any());
    case 8: return rewrite(any());
    case 9: return truncate(any());
    case 10: return fork(any());
    case 11:
    case 12: return slide(any());
    case 13: return release(static_cast<std::size_t>(below(static_cast<std::int64_t>(seqs_.size()))));
    case 14: return raw();
    case 15: return mark_or_roll_back();
    case 16: return probe_transaction();
    default:
      for (SwarmSeq& seq : seqs_) append(seq);
      return;
  }
}

/// A new sequence, from whatever the cache has of its text.
template <class A>
void SwarmRunner<A>::start() {
  SwarmSeq seq{.id = {}, .name_space = static_cast<std::uint32_t>(rng_() % 2), .extra = static_cast<std::uint32_t>(rng_() % 4 == 0),
               .text = random_text()};
  const auto extra = extras(seq.extra);
  const kvpage::PrefixQuery query{.name_space = kvpage::NamespaceId{seq.name_space}, .tokens = seq.text, .max_tokens = 1 + below(20),
                                  .extras = extra};
  const kvpage::PrefixHit hit = allocator_.match(query);
  require(hit.num_tokens <= std::min(query.max_tokens, static_cast<std::int64_t>(seq.text.size())), "a hit is no longer than asked for");
  require(hit.num_tokens == 0 || allocator_.match(query).num_tokens == hit.num_tokens, "a match changes nothing");
  if (hit.num_tokens > 0 && rng_() % 4 == 0) old_hit_ = hit;
  const kvpage::Savepoint point = txn_->mark();
  const auto id = tried("create", [&] { return txn_->create(query.name_space); });
  if (!id) return;
  seq.id = *id;
  const std::int64_t copied = static_cast<std::int64_t>(txn_->copies().size());
  const auto shared = tried("share", [&] { return txn_->share(seq.id, hit); });
  if (!shared) return txn_->rollback_to(point);
  require(shared->num_tokens <= hit.num_tokens, "no more is shared than was hit");
  require(shared->num_tokens >= hit.num_tokens - hit.partial_tokens, "full blocks of a hit are always shared");
  require((shared->copied_tokens > 0) == (static_cast<std::int64_t>(txn_->copies().size()) > copied), "copied tokens come with copies");
  if (hit.num_tokens > 0) count("share", shared->copied_tokens > 0 ? "partial copy" : "whole blocks");
  seq.text.resize(static_cast<std::size_t>(shared->num_tokens));
  seq.written = shared->num_tokens;
  seqs_.push_back(std::move(seq));
}

template <class A>
void SwarmRunner<A>::append(SwarmSeq& seq) {
  const auto length = static_cast<std::int64_t>(seq.text.size());
  const std::int64_t more = 1 + below(5);
  const kvpage::Savepoint point = txn_->mark();
  const std::uint64_t before = allocator_.digest();
  if (!tried("append", [&] { return txn_->grow(seq.id, length + more); })) return;
  if (!tried("make_writable", [&] { return txn_->make_writable(seq.id, length, length + more); })) {
    txn_->rollback_to(point);
    require(allocator_.digest() == before, "a savepoint restores the whole state");
    return count("append", "savepoint rollback");
  }
  for (std::int64_t i = 0; i < more; ++i) seq.text.push_back(rng_() % 8 == 0 ? 1u : 0u);
}

/// Other tokens from some position on, in the blocks that are there.
template <class A>
void SwarmRunner<A>::rewrite(SwarmSeq& seq) {
  const auto length = static_cast<std::int64_t>(seq.text.size());
  if (length == 0) return;
  const std::int64_t first = below(length);
  const std::int64_t last = rng_() % 2 == 0 ? length : first + below(length - first + 1);
  const std::int64_t live = allocator_.table(seq.id, config_.sizes.num_groups - 1).first_live;
  if (first < live * config_.sizes.block_size) return;  // what left the window is not computed again
  if (!tried("rewrite", [&] { return txn_->make_writable(seq.id, first, last); })) return;
  if (first == last) return;
  if (last < length && !tried("truncate", [&] { return txn_->truncate(seq.id, last); })) return rewritten_from(seq, first);
  seq.text.resize(static_cast<std::size_t>(last));
  for (std::int64_t t = first; t < last; ++t) seq.text[static_cast<std::size_t>(t)] = static_cast<kvpage::TokenId>(rng_() % 2);
  rewritten_from(seq, first);
}

template <class A>
void SwarmRunner<A>::rewritten_from(SwarmSeq& seq, std::int64_t token) {
  seq.written = std::min(seq.written, token);
  seq.committed = std::min(seq.committed, token);
  const auto [it, fresh] = rewritten_.emplace(seq.id, token);
  it->second = std::min(it->second, token);
}

template <class A>
void SwarmRunner<A>::truncate(SwarmSeq& seq) {
  const std::int64_t cut = below(static_cast<std::int64_t>(seq.text.size()) + 2) - 1 + below(2);
  if (!tried("truncate", [&] { return txn_->truncate(seq.id, cut); })) return;
  seq.text.resize(static_cast<std::size_t>(cut));
  rewritten_from(seq, cut);
}

template <class A>
void SwarmRunner<A>::fork(const SwarmSeq& seq) {
  const auto child = tried("fork", [&] { return txn_->fork(seq.id); });
  if (!child) return;
  SwarmSeq copy = seq;
  copy.id = *child;
  copy.committed = 0;  // like all of a new sequence, until its step is committed
  seqs_.push_back(std::move(copy));
}

/// Lets go what no later query can see.
template <class A>
void SwarmRunner<A>::slide(SwarmSeq& seq) {
  const std::int64_t group = below(config_.sizes.num_groups + 1);
  const bool known = group < config_.sizes.num_groups;
  const std::int64_t before = known ? allocator_.table(seq.id, group).first_live : 0;
  if (!tried("release_before", [&] { return txn_->release_before(seq.id, group, seq.committed); })) return;
  const std::int64_t window = config_.sizes.window(group);
  const auto table = allocator_.table(seq.id, group);
  const std::int64_t oldest = window == 0 ? 0 : std::max<std::int64_t>(0, seq.committed - window + 1);
  require(table.first_live == std::max(before, std::min(oldest / config_.sizes.block_size, static_cast<std::int64_t>(table.blocks.size()))),
          "exactly the blocks behind the window go");
  if (table.first_live > before) count("release_before", "blocks dropped");
}

template <class A>
void SwarmRunner<A>::release(std::size_t at) {
  const kvpage::SeqId id = seqs_[at].id;
  if (!tried("release", [&] { return txn_->release(id); })) return;
  dead_ = id;
  seqs_.erase(seqs_.begin() + static_cast<std::ptrdiff_t>(at));
}

template <class A>
void SwarmRunner<A>::raw() {
  const auto draw = rng_() % 4;
  if (refs_.empty() || draw < 2) {
    const auto ref = tried("raw_alloc", [&] { return txn_->allocate_block(); });
    if (ref) refs_.emplace_back(ref->id(), ref->generation());
    return;
  }
  const auto at = static_cast<std::size_t>(below(static_cast<std::int64_t>(refs_.size())));
  const auto held = refs_[at];
  if (draw == 2) {
    if (tried("raw_share", [&] { return txn_->share_block(kvpage::BlockRef{held.first, held.second}); })) refs_.push_back(held);
  } else if (tried("raw_free", [&] { return txn_->free_block(kvpage::BlockRef{held.first, held.second}); })) {
    refs_.erase(refs_.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

template <class A>
void SwarmRunner<A>::mark_or_roll_back() {
  if (!mark_ || rng_() % 2 == 0) {
    mark_ = Mark{txn_->mark(), allocator_.digest(), seqs_, refs_};
    return;
  }
  txn_->rollback_to(mark_->point);
  require(allocator_.digest() == mark_->digest, "a rollback restores the whole state");
  seqs_ = mark_->seqs;
  refs_ = mark_->refs;
  count("rollback", "done");
}

template <class A>
void SwarmRunner<A>::finish_transaction() {
  if (!txn_) return;
  const auto draw = rng_() % 8;
  if (draw < 4) seal();
  if (draw >= 4 && draw < 7) commit_directly();
  if (!txn_) return;
  const auto evicted = allocator_.digest() != digest_before_;
  txn_.reset();  // dropping it takes it back
  require(allocator_.digest() == digest_before_, "an abort restores the whole state");
  seqs_ = before_;
  refs_ = refs_before_;
  count("abort before seal", evicted ? "something to undo" : "nothing to undo");
}

/// The launched step: copies in order, then every token that has a place and no content yet.
template <class A>
void SwarmRunner<A>::execute(std::span<const kvpage::CopyOp> copies) {
  for (const kvpage::CopyOp& copy : copies) {
    for (std::int64_t t = 0; t < copy.num_tokens; ++t) shadow_.at(copy.target, t) = shadow_.at(copy.source, t);
  }
  for (SwarmSeq& seq : seqs_) {
    for (std::int64_t g = 0; g < config_.sizes.num_groups; ++g) {
      const auto table = allocator_.table(seq.id, g);
      for (std::int64_t t = std::max(seq.written, table.first_live * config_.sizes.block_size); t < table.num_tokens; ++t) {
        const kvpage::BlockId block = table.blocks[static_cast<std::size_t>(t / config_.sizes.block_size)];
        shadow_.at(block, t % config_.sizes.block_size) = SwarmMemory::content(seq, g, t);
      }
    }
    seq.written = static_cast<std::int64_t>(seq.text.size());
  }
}

/// What was written anew is not accepted by the commit of an older step.
template <class A>
void SwarmRunner<A>::note_rewrites() {
  for (SwarmStep& step : steps_) {
    for (const auto& [id, token] : rewritten_) {
      const auto length = step.lengths.find(id);
      if (length != step.lengths.end()) length->second = std::min(length->second, token);
    }
  }
}

template <class A>
void SwarmRunner<A>::seal() {
  const auto step = tried("seal", [&] { return txn_->seal(); });
  if (!step) return;
  txn_.reset();
  execute(allocator_.copies(*step));
  note_rewrites();
  SwarmStep record{.id = *step, .before = before_, .lengths = {}, .committed = false};
  for (const SwarmSeq& seq : seqs_) record.lengths[seq.id] = seq.written;
  steps_.push_back(std::move(record));
  refs_at_.push_back(refs_before_);
}

template <class A>
void SwarmRunner<A>::commit_directly() {
  const auto done = tried("commit", [&] { return txn_->commit(); });
  if (!done) return;
  txn_.reset();
  execute({});
  note_rewrites();
  const bool sealed = std::any_of(steps_.begin(), steps_.end(), [](const SwarmStep& s) { return !s.committed; });
  if (sealed) return;
  for (SwarmSeq& seq : seqs_) seq.committed = seq.written;
}

}  // namespace kvpage_test

#include "cache_alloc/swarm_probes.hpp"
