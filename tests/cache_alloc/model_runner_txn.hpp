/// \file ModelRunner, first half: operations of the open transaction.
#pragma once

#include "cache_alloc/model_runner.hpp"

namespace kvpage_test {

template <class A>
void ModelRunner<A>::apply_txn(const Op& op) {
  if (!open()) apply({OpKind::kBegin, 0, 0, 0});
  switch (op.kind) {
    case OpKind::kCreate: return create(op);
    case OpKind::kAppend: return append(op);
    case OpKind::kTruncate:
    case OpKind::kRelease: return truncate(op);
    case OpKind::kFork: return fork(op);
    case OpKind::kShare: {
      const std::string text = random_text(op.a, 1 + static_cast<int>(op.b % static_cast<std::uint32_t>(sizes_.max_tokens)), op.c);
      return share(op, real_match(text), text, true);
    }
    case OpKind::kShareStale:
      // Only its full blocks: which partly equal block an old hit meant is not the model's knowledge.
      saved_hit_.partial_tokens = 0;
      if (!saved_text_.empty()) share(op, saved_hit_, saved_text_, false);
      return;
    case OpKind::kShareInto:
    case OpKind::kShareForeign: return share_refused(op);
    case OpKind::kCreateUnknown: return create_unknown(op);
    case OpKind::kMark:
      mark_.emplace(txn_->mark(), world_);
      digest_mark_ = allocator_.digest();
      return count("mark", "done");
    case OpKind::kRollback:
      if (!mark_) return;
      txn_->rollback_to(mark_->first);
      world_ = mark_->second;
      require(allocator_.digest() == digest_mark_, "a rollback restores the whole state");
      return count("rollback", "done");
    default: return raw(op);
  }
}

template <class A>
void ModelRunner<A>::create(const Op& op) {
  const int live = static_cast<int>(world_.cache.seqs.size());
  const auto seq = txn_->create(kvpage::NamespaceId{op.a % 2});
  const Outcome model = live == sizes_.max_seqs ? Outcome{"kNoSeqSlot", live + 1, live} : Outcome{};
  if (!agree("create", seq, model)) return;
  world_.cache.seqs[world_.next_seq].text = static_cast<char>('A' + op.a % 2);
  world_.progress[world_.next_seq] = {};
  world_.seq_ids[world_.next_seq++] = *seq;
}

/// What an engine does for new tokens: room for them, and exclusive blocks to write to; neither when one of both is refused.
template <class A>
void ModelRunner<A>::append(const Op& op) {
  const int id = pick_seq(op.a);
  if (id < 0) return;
  const int length = world_.cache.seqs[id].num_tokens();
  const int more = std::min(1 + static_cast<int>(op.b % 6), sizes_.max_tokens - length);
  if (more <= 0) return;
  const kvpage::SeqId seq = world_.seq_ids[id];
  const kvpage::Savepoint before = txn_->mark();
  const std::uint64_t digest = allocator_.digest();
  const ModelWorld world = world_;
  if (!agree("append", txn_->grow(seq, length + more), world_.cache.grow(id, random_text(op.c, more, 0).substr(1)))) {
    world_ = world;
    return;
  }
  NaiveCache& cache = world_.cache;
  const int tail = length / sizes_.block_size;
  const int kept = length % sizes_.block_size;
  int& entry = cache.seqs[id].cells[static_cast<std::size_t>(tail)];
  const bool replace = kept > 0 && !cache.exclusive(entry);
  const Outcome model = replace && cache.available() < 1 ? Outcome{"kNoBlocks", 1, 0} : Outcome{};
  if (!agree("make_writable", txn_->make_writable(seq, length, length + more), model)) {
    txn_->rollback_to(before);
    world_ = world;
    require(allocator_.digest() == digest, "a savepoint restores the whole state");
    return count("append", "savepoint rollback");
  }
  if (!replace) return;
  const int old = entry;
  ++cache.held[old];  // the table's reference goes over to the copy
  if (cache.clean() == 0) count("make_writable", "leaf eviction");
  const int target = cache.take();
  cache.seqs[id].cells[static_cast<std::size_t>(tail)] = target;
  world_.copies.push_back({old, target, kept});
  count("make_writable", "copy");
}

template <class A>
void ModelRunner<A>::truncate(const Op& op) {
  const int id = pick_seq(op.a);
  if (id < 0) return;
  const kvpage::SeqId seq = world_.seq_ids[id];
  const std::size_t pending = world_.cache.pending.size();
  if (op.kind == OpKind::kRelease) {
    if (!agree("release", txn_->release(seq), {})) return;
    world_.cache.release(id);
    world_.progress.erase(id);
    require(!allocator_.alive(seq), "a released sequence is dead");
  } else {
    const int length = world_.cache.seqs[id].num_tokens();
    const int cut = static_cast<int>(op.b % static_cast<std::uint32_t>(length + 2));
    const Outcome model = cut > length ? Outcome{"kBadLength", cut, length} : Outcome{};
    if (!agree("truncate", txn_->truncate(seq, cut), model)) return;
    world_.cache.truncate(id, cut);
    if (cut < length) world_.cut.insert(id);
    ModelWorld::Progress& p = world_.progress[id];
    p = {std::min(p.written, cut), std::min(p.committed, cut)};
    for (Sealed& step : steps_) {
      if (step.lengths.contains(id)) step.lengths[id] = std::min(step.lengths[id], cut);
    }
  }
  if (world_.cache.pending.size() > pending) count("release", "pending");
}

template <class A>
void ModelRunner<A>::fork(const Op& op) {
  const int parent = pick_seq(op.a);
  if (parent < 0) return;
  const int live = static_cast<int>(world_.cache.seqs.size());
  const auto child = txn_->fork(world_.seq_ids[parent]);
  const Outcome model = live == sizes_.max_seqs ? Outcome{"kNoSeqSlot", live + 1, live} : Outcome{};
  if (!agree("fork", child, model)) return;
  world_.cache.seqs[world_.next_seq] = world_.cache.seqs[parent];
  world_.progress[world_.next_seq] = {world_.progress[parent].written, 0};  // nothing of it is committed before its step
  world_.seq_ids[world_.next_seq++] = *child;
}

/// Creates a sequence and starts it from a hit; a stale hit must be refused, and the create taken back.
template <class A>
void ModelRunner<A>::share(const Op& op, const kvpage::PrefixHit& hit, const std::string& text, bool fresh) {
  if (static_cast<int>(world_.cache.seqs.size()) == sizes_.max_seqs) return;
  const NaiveCache::Hit model = world_.cache.match(text);
  const kvpage::Savepoint before = txn_->mark();
  const auto seq = txn_->create(kvpage::NamespaceId{static_cast<std::uint32_t>(text[0] - 'A')});
  if (!seq) return;
  const auto shared = txn_->share(*seq, hit);
  if (!shared) {
    require(shared.error().kind != kvpage::CacheRefusalKind::kStaleHit || !fresh, "a fresh hit is not stale");
    count(fresh ? "share" : "share_stale", refusal_name(shared.error().kind));
    return txn_->rollback_to(before);
  }
  NaiveCache::Hit expected = model;
  if (!fresh) {
    require(hit.num_blocks <= model.cells.size(), "an old hit is accepted only while its blocks are cached");
    expected.cells.resize(hit.num_blocks);
    expected.partial_tokens = 0;
  }
  const int id = world_.next_seq++;
  world_.seq_ids[id] = *seq;
  const bool copied = model_share(id, expected, text);
  const int length = world_.cache.seqs[id].num_tokens();
  require_equal(shared->num_tokens, length, "shared tokens");
  require_equal(shared->copied_tokens, copied ? expected.partial_tokens : 0, "copied tokens");
  world_.progress[id] = {length, 0};
  count(fresh ? "share" : "share_stale", "done");
  static_cast<void>(op);
}

/// A hit goes into a sequence without tokens, of its own namespace.
template <class A>
void ModelRunner<A>::share_refused(const Op& op) {
  const std::string text = random_text(op.b, sizes_.max_tokens, 1);
  if (op.kind == OpKind::kShareInto) {
    const int id = pick_seq(op.a);
    const int length = id < 0 ? 0 : world_.cache.seqs[id].num_tokens();
    if (length > 0) agree("share_into", txn_->share(world_.seq_ids[id], real_match(text)), {"kNotEmpty", 0, length});
    return;
  }
  const kvpage::Savepoint before = txn_->mark();
  const auto seq = txn_->create(kvpage::NamespaceId{0});
  if (!seq) return;
  agree("share_foreign", txn_->share(*seq, real_match(text)), {"kBadNamespace", 1, 0});
  txn_->rollback_to(before);
}

template <class A>
void ModelRunner<A>::create_unknown(const Op& op) {
  const int live = static_cast<int>(world_.cache.seqs.size());
  const int id = 2 + static_cast<int>(op.a % 5);
  const Outcome model = live == sizes_.max_seqs ? Outcome{"kNoSeqSlot", live + 1, live} : Outcome{"kBadNamespace", id, 2};
  agree("create_unknown", txn_->create(kvpage::NamespaceId{static_cast<std::uint32_t>(id)}), model);
}

/// Returns true when the partial block was copied.
template <class A>
bool ModelRunner<A>::model_share(int id, const NaiveCache::Hit& hit, const std::string& text) {
  NaiveCache& cache = world_.cache;
  NaiveCache::Seq& seq = cache.seqs[id];
  seq.text = text.substr(0, 1 + hit.cells.size() * static_cast<std::size_t>(sizes_.block_size));
  for (const int cell : hit.cells) {
    cache.wanted(cell);
    seq.cells.push_back(cell);
  }
  if (hit.partial_tokens == 0) return false;
  const int source = cache.index.at(hit.partial).cell;
  const bool whole = static_cast<int>(hit.partial.size()) == static_cast<int>(seq.text.size()) + hit.partial_tokens;
  bool copied = false;
  if (whole && cache.refs(source) == 0) {
    cache.wanted(source);
    cache.unindex(source);
    seq.cells.push_back(source);
    count("share", "takeover");
  } else {
    const NaiveCache untouched = cache;
    cache.hold(source);
    if (cache.available() < 1 || (sizes_.max_copies > 0 && static_cast<int>(world_.copies.size()) >= sizes_.max_copies)) {
      cache = untouched;
      count("share", "partial without a block");
      return false;
    }
    if (cache.clean() == 0) count("share", "leaf eviction");
    const int target = cache.take();
    cache.seqs[id].cells.push_back(target);
    world_.copies.push_back({source, target, hit.partial_tokens});
    count("share", "partial copy");
    copied = true;
  }
  cache.seqs[id].text = text.substr(0, cache.seqs[id].text.size() + static_cast<std::size_t>(hit.partial_tokens));
  return copied;
}

template <class A>
void ModelRunner<A>::raw(const Op& op) {
  NaiveCache& cache = world_.cache;
  if (op.kind == OpKind::kDeadSeq) {
    require(!txn_->grow({op.a % 8, 0xFFFF'FFFFu}, 1), "a dead sequence is refused");
    return count("dead_seq", "kDeadSeq");
  }
  if (op.kind == OpKind::kRawAlloc) {
    const int available = cache.available();
    const auto ref = txn_->allocate_block();
    if (!agree("raw_alloc", ref, available < 1 ? Outcome{"kNoBlocks", 1, 0} : Outcome{})) return;
    if (cache.clean() == 0) count("raw_alloc", "leaf eviction");
    const int cell = cache.take();
    cache.hold(cell);
    learn(cell, ref->id());
    world_.raws.push_back({cell, ref->id().value, ref->generation()});
    return;
  }
  if (world_.raws.empty()) return;
  const std::size_t at = op.a % world_.raws.size();
  const ModelWorld::Raw picked = world_.raws[at];
  const kvpage::BlockId id{picked.block};
  if (op.kind == OpKind::kRawShare) {
    if (!agree("raw_share", txn_->share_block(kvpage::BlockRef{id, picked.generation}), {})) return;
    cache.hold(picked.cell);
    world_.raws.push_back(picked);
  } else if (op.kind == OpKind::kRawFree) {
    if (!agree("raw_free", txn_->free_block(kvpage::BlockRef{id, picked.generation}), {})) return;
    world_.raws.erase(world_.raws.begin() + static_cast<std::ptrdiff_t>(at));
    cache.unhold(picked.cell);
  } else {
    const auto same = [&](const ModelWorld::Raw& r) { return r.cell == picked.cell; };
    const auto held = static_cast<std::size_t>(std::count_if(world_.raws.begin(), world_.raws.end(), same));
    const std::vector<kvpage::BlockId> ids(held + op.b % 2, id);
    const auto freed = txn_->unref(ids);
    const Outcome model = ids.size() > held ? Outcome{"kNotHeld", static_cast<int>(ids.size()), static_cast<int>(held)} : Outcome{};
    if (!agree("raw_free_twice", freed, model)) return;
    std::erase_if(world_.raws, same);
    for (std::size_t i = 0; i < held; ++i) cache.unhold(picked.cell);
  }
}

}  // namespace kvpage_test
