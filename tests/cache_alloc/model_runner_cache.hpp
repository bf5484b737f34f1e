/// \file ModelRunner, last part: abort of a sealed step, publish, pins, reset, and reading the eviction order.
#pragma once

#include "cache_alloc/model_runner.hpp"

namespace kvpage_test {

template <class A>
void ModelRunner<A>::abort_step(const Op&) {
  const bool none = steps_.empty() || steps_.back().committed;
  if (open() || none) {
    agree("abort_step", allocator_.abort(kvpage::StepId{kNoSuchStep}),
          open() ? Outcome{"kBusy", 0, 1} : Outcome{"kOutOfOrder", kNoSuchStep, 0});
    return;
  }
  if (sizes_.max_log_entries > 0) return;  // the order could not be read afterwards
  const auto lost = allocator_.abort(steps_.back().id);
  require(agree("abort_step", lost, {}), "the newest sealed step aborts");
  if (*lost > 0) count("abort_step", "content lost");
  const Sealed step = std::move(steps_.back());
  steps_.pop_back();
  NaiveCache& cache = world_.cache;
  const std::set<int> used = cache.used();
  cache.in_flight.erase(static_cast<int>(step.id.value));
  restore_sequences(step);
  const std::set<int> wanted = cache.used();
  for (const int cell : wanted) cache.wanted(cell);
  const std::size_t known = cache.lru.size();
  for (const int cell : used) {
    if (!wanted.contains(cell)) cache.dropped(cell);
  }
  settle_pending(step.id.value);
  order_unknown_ = true;
  compare();
  learn_order(known);
  verify_content();
}

/// Tables as before the step, except for rows that a direct commit changed meanwhile: those only shrink.
template <class A>
void ModelRunner<A>::restore_sequences(const Sealed& step) {
  ModelWorld restored = step.before;
  for (auto it = restored.cache.seqs.begin(); it != restored.cache.seqs.end();) {
    auto& [id, seq] = *it;
    const bool now = world_.cache.seqs.contains(id);
    if (step.touched.contains(id) && !now) {
      restored.progress.erase(id);
      it = restored.cache.seqs.erase(it);
      continue;
    }
    if (step.touched.contains(id)) {
      const int length = static_cast<int>(allocator_.num_tokens(world_.seq_ids.at(id)));
      require(length <= std::min(seq.num_tokens(), world_.cache.seqs.at(id).num_tokens()), "a settled row only shrinks");
      seq.text.resize(static_cast<std::size_t>(length) + 1);
      seq.cells.resize(static_cast<std::size_t>((length + sizes_.block_size - 1) / sizes_.block_size));
    }
    ModelWorld::Progress& p = restored.progress[id];
    const int committed = now ? world_.progress.at(id).committed : p.committed;
    p = {std::min(p.written, seq.num_tokens()), std::min({p.written, committed, seq.num_tokens()})};
    ++it;
  }
  world_.cache.seqs = restored.cache.seqs;
  world_.progress = restored.progress;
  world_.raws = restored.raws;
  for (const auto& [cell, block] : restored.block_of) world_.block_of.emplace(cell, block);
  world_.cache.held.clear();
  for (const ModelWorld::Raw& raw : world_.raws) ++world_.cache.held[raw.cell];
  for (const PinRecord& pin : pins_) {
    for (const int cell : pin.cells) ++world_.cache.held[cell];
  }
  for (const Sealed& other : steps_) {
    for (const ModelWorld::Copy& copy : other.copies) ++world_.cache.held[copy.source];
  }
}

template <class A>
void ModelRunner<A>::publish(const Op& op) {
  const int id = pick_seq(op.a);
  if (id < 0) return;
  const kvpage::SeqId seq = world_.seq_ids[id];
  NaiveCache::Seq& model = world_.cache.seqs[id];
  const int committed = world_.progress[id].committed;
  const auto tokens = tokens_of(model.text.substr(0, static_cast<std::size_t>(committed) + 1));
  const bool tail = op.b % 2 == 0;
  const auto done = allocator_.publish(seq, {.tokens = tokens, .partial_tail = tail});
  if (!agree("publish", done, open() ? Outcome{"kBusy", 0, 1} : Outcome{}) || allocator_.content_lost(seq)) return;
  const std::vector<int> before = model.cells;
  if (world_.cache.publish(id, committed, tail) > 0) count("publish", "adoption");
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == model.cells[i]) continue;
    for (Sealed& step : steps_) {
      auto& seqs = step.before.cache.seqs;
      if (seqs.contains(id) && i < seqs[id].cells.size() && seqs[id].cells[i] == before[i]) seqs[id].cells[i] = model.cells[i];
    }
  }
}

template <class A>
void ModelRunner<A>::pin(const Op& op) {
  const int seq = pick_seq(op.a);
  const std::string text = seq >= 0 && op.b % 4 != 0 ? world_.cache.seqs[seq].text : random_text(op.a, sizes_.max_tokens, op.c);
  const NaiveCache::Hit model = world_.cache.match(text);
  const kvpage::PrefixHit hit = real_match(text);
  std::set<int> pinned;
  for (const PinRecord& pin : pins_) pinned.insert(pin.cells.begin(), pin.cells.end());
  pinned.insert(model.cells.begin(), model.cells.end());
  const auto total = static_cast<int>(pinned.size());
  const int limit = sizes_.num_blocks / 2;
  const Outcome expected = open()                ? Outcome{"kBusy", 0, 1}
                           : model.cells.empty() ? Outcome{"kStaleHit", hit.num_tokens, 0}
                           : total > limit       ? Outcome{"kPinLimit", total, limit}
                                                 : Outcome{};
  const auto id = allocator_.pin(hit, static_cast<std::uint8_t>(op.c % 3));
  if (!agree("pin", id, expected)) return;
  for (const int cell : model.cells) world_.cache.hold(cell);
  pins_.push_back({*id, model.cells, static_cast<int>(op.c % 3)});
  require_equal(allocator_.capacity().pinned, total, "pinned");
}

template <class A>
void ModelRunner<A>::unpin(const Op& op) {
  if (pins_.empty()) return;
  const std::size_t at = op.a % pins_.size();
  if (!agree("unpin", allocator_.unpin(pins_[at].id), open() ? Outcome{"kBusy", 0, 1} : Outcome{})) return;
  const PinRecord pin = pins_[at];
  pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(at));
  for (std::size_t i = pin.cells.size(); i-- > 0;) world_.cache.unhold(pin.cells[i]);
  require(!allocator_.unpin(pin.id), "a pin ends once");
}

template <class A>
void ModelRunner<A>::yield(const Op& op) {
  const int wanted = static_cast<int>(op.a % static_cast<std::uint32_t>(sizes_.num_blocks + 1));
  const auto ended = allocator_.yield_pins(wanted);
  if (!agree("yield", ended, open() ? Outcome{"kBusy", 0, 1} : Outcome{})) return;
  std::int64_t count_model = 0;
  while (world_.cache.available() < wanted && !pins_.empty()) {
    const auto least = std::min_element(pins_.begin(), pins_.end(),
                                        [](const PinRecord& a, const PinRecord& b) { return a.priority < b.priority; });
    const PinRecord pin = *least;
    pins_.erase(least);
    for (std::size_t i = pin.cells.size(); i-- > 0;) world_.cache.unhold(pin.cells[i]);
    ++count_model;
  }
  require_equal(*ended, count_model, "pins ended");
  if (count_model > 0) count("yield", "pin yields");
}

template <class A>
void ModelRunner<A>::reset(const Op& op) {
  const bool detach = op.a % 2 == 0;
  NaiveCache& cache = world_.cache;
  const int holders = static_cast<int>(cache.seqs.size() + steps_.size() + pins_.size());
  const Outcome expected = open() ? Outcome{"kBusy", 0, 1} : !detach && holders > 0 ? Outcome{"kBusy", 0, holders} : Outcome{};
  const auto done = allocator_.reset(detach ? kvpage::CacheReset::kDetach : kvpage::CacheReset::kIfIdle);
  if (!agree("reset", done, expected)) return;
  std::vector<PinRecord> pins;
  pins.swap(pins_);
  for (const PinRecord& pin : pins) {
    for (std::size_t i = pin.cells.size(); i-- > 0;) cache.unhold(pin.cells[i]);
  }
  cache.index.clear();
  cache.lru.clear();
  for (auto& [id, seq] : cache.seqs) seq.detached = true;
  for (Sealed& step : steps_) {
    for (auto& [id, seq] : step.before.cache.seqs) seq.detached = true;
  }
  require(allocator_.match({.tokens = tokens_of("A0000")}).num_tokens == 0, "nothing is found after a reset");
  if (!saved_text_.empty() && saved_hit_.num_tokens > 0) count("reset", detach ? "detach, hit goes stale" : "idle, hit goes stale");
}

/// Both namespaces are known, and there is no room for a third. A transaction may be open.
template <class A>
void ModelRunner<A>::intern_any(const Op& op) {
  if (op.a % 3 == 0) {
    const std::vector<kvpage::NamespaceField> nine(9);
    agree("intern", allocator_.intern(nine), {"kBadNamespace", 9, 8});
  } else if (op.a % 3 == 1) {
    agree("intern", intern(8 + static_cast<int>(op.b % 200)), {"kNoNamespace", 3, 2});
  } else {
    const auto known = intern(7);
    require(agree("intern", known, {}) && *known == kvpage::NamespaceId{1}, "a known namespace keeps its id");
  }
}

/// Takes every available block in a transaction that is dropped: clean ones come first, then cached ones in eviction order.
template <class A>
std::vector<std::uint32_t> ModelRunner<A>::read_order() {
  std::vector<std::uint32_t> order;
  auto txn = allocator_.begin();
  while (true) {
    const auto block = txn->allocate_block();
    if (!block) break;
    order.push_back(block->id().value);
  }
  order.erase(order.begin(), order.begin() + std::min<std::ptrdiff_t>(world_.cache.clean(), static_cast<std::ptrdiff_t>(order.size())));
  return order;
}

template <class A>
void ModelRunner<A>::probe_order() {
  if (sizes_.max_log_entries > 0) return;
  const std::vector<std::uint32_t> order = read_order();
  require_equal(static_cast<std::int64_t>(order.size()), static_cast<std::int64_t>(world_.cache.lru.size()), "cached blocks");
  NaiveCache cache = world_.cache;
  for (const std::uint32_t block : order) require_equal(block, world_.block_of.at(cache.evict()), "eviction order");
  count("probe_order", "done");
}

/// After a sealed abort the order of what came back, lru[known..], is the allocator's to choose. The model learns it, unless a block
/// that builds on a cached one came back: then what can be read is not the queue alone, and the episode ends here.
template <class A>
void ModelRunner<A>::learn_order(std::size_t known) {
  std::vector<int>& lru = world_.cache.lru;
  if (!order_unknown_ || draining_) return;
  order_unknown_ = !world_.cache.pending.empty();
  for (std::size_t i = known; i < lru.size(); ++i) {
    const std::string& prefix = world_.cache.prefix_of(lru[i]);
    for (const int other : lru) {
      const std::string& parent = world_.cache.prefix_of(other);
      if (parent.size() < prefix.size() && prefix.starts_with(parent)) finished_ = true;
    }
  }
  if (finished_) return;
  const std::vector<std::uint32_t> order = read_order();
  require_equal(static_cast<std::int64_t>(order.size()), static_cast<std::int64_t>(lru.size()), "cached blocks");
  const auto rank = [&](int cell) { return std::find(order.begin(), order.end(), world_.block_of.at(cell)) - order.begin(); };
  std::sort(lru.begin() + static_cast<std::ptrdiff_t>(known), lru.end(), [&](int x, int y) { return rank(x) < rank(y); });
}

template <class A>
void ModelRunner<A>::drain() {
  draining_ = true;
  if (open()) apply({OpKind::kAbortOpen, 0, 0, 0});
  while (!steps_.empty()) {
    if (!steps_[0].committed) {
      apply({OpKind::kCommitStep, 1, 0, 0});
    } else {
      apply({OpKind::kRetire, 0, 0, 0});
    }
  }
  while (!world_.cache.seqs.empty() || !world_.raws.empty()) {
    apply({OpKind::kRelease, 0, 0, 0});
    apply({OpKind::kRawFree, 0, 0, 0});
    apply({OpKind::kCommitOpen, 0, 0, 0});
  }
  while (!pins_.empty()) apply({OpKind::kUnpin, 0, 0, 0});
  const kvpage::CapacitySnapshot now = allocator_.capacity();
  require(now.used == 0 && now.pending == 0 && now.available() == sizes_.num_blocks, "after a drain every block is available");
}

}  // namespace kvpage_test
