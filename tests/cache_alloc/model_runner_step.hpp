/// \file ModelRunner, second half: steps, publish, pins, reset, and the check of what the blocks contain.
#pragma once

#include "cache_alloc/model_runner.hpp"

namespace kvpage_test {

/// Most operations between transactions end the open one first; some meet it and must be refused.
template <class A>
void ModelRunner<A>::close_mostly(const Op& op) {
  const bool between = (op.kind >= OpKind::kCommitStep && op.kind <= OpKind::kReset) || op.kind == OpKind::kProbeOrder;
  if (!between || !open() || op.c % 8 == 0) return;
  apply({op.c % 8 < 6 ? OpKind::kSeal : OpKind::kCommitOpen, 0, 0, 0});
  if (open()) apply({OpKind::kAbortOpen, 0, 0, 0});
}

template <class A>
void ModelRunner<A>::apply(const Op& op) {
  if (finished_ && !draining_) return;
  close_mostly(op);
  switch (op.kind) {
    case OpKind::kBegin: {
      if (open()) {
        agree("begin", allocator_.begin(), {"kBusy", 0, 1});
        break;
      }
      world_.cut.clear();
      before_ = world_;
      digest_before_ = allocator_.digest();
      auto txn = allocator_.begin();
      require(agree("begin", txn, {}), "a transaction opens");
      txn_.emplace(*std::move(txn));
      break;
    }
    case OpKind::kMatch: {
      const std::string text = random_text(op.a, 1 + static_cast<int>(op.b % static_cast<std::uint32_t>(sizes_.max_tokens)), op.c);
      const NaiveCache::Hit model = world_.cache.match(text);
      saved_hit_ = real_match(text);
      saved_text_ = text;
      require_equal(saved_hit_.num_blocks, static_cast<std::int64_t>(model.cells.size()), "full blocks of a hit");
      require_equal(saved_hit_.partial_tokens, model.partial_tokens, "partial tokens of a hit");
      require(saved_hit_.num_computed(static_cast<std::int64_t>(text.size()) - 1) < static_cast<std::int64_t>(text.size()) - 1,
              "one token is always computed");
      count("match", saved_hit_.num_tokens == 0 ? "miss" : saved_hit_.partial_tokens > 0 ? "partial hit" : "full hit");
      break;
    }
    case OpKind::kSeal: if (open()) seal(); break;
    case OpKind::kCommitOpen: if (open()) commit_open(); break;
    case OpKind::kAbortOpen: if (open()) abort_open(); break;
    case OpKind::kCommitStep: commit_step(op); break;
    case OpKind::kAbortStep: abort_step(op); break;
    case OpKind::kRetire: retire(op); break;
    case OpKind::kPublish: publish(op); break;
    case OpKind::kPin: pin(op); break;
    case OpKind::kUnpin: unpin(op); break;
    case OpKind::kYield: yield(op); break;
    case OpKind::kReset: reset(op); break;
    case OpKind::kIntern: intern_any(op); break;
    case OpKind::kProbeOrder: if (!open()) probe_order(); break;
    default: apply_txn(op); break;
  }
  compare();
}

/// The launched step: copies first, then every token that has a place and no content yet.
template <class A>
void ModelRunner<A>::execute() {
  for (const ModelWorld::Copy& copy : world_.copies) {
    for (int t = 0; t < copy.num_tokens; ++t) {
      shadow_.at(world_.block_of.at(copy.target), t) = shadow_.at(world_.block_of.at(copy.source), t);
    }
  }
  for (auto& [id, progress] : world_.progress) {
    const NaiveCache::Seq& seq = world_.cache.seqs.at(id);
    for (; progress.written < seq.num_tokens(); ++progress.written) {
      const int cell = seq.cells[static_cast<std::size_t>(progress.written / sizes_.block_size)];
      shadow_.at(world_.block_of.at(cell), progress.written % sizes_.block_size) = ShadowMemory::content(seq.text, progress.written);
    }
  }
}

template <class A>
void ModelRunner<A>::verify_content() {
  for (const auto& [id, progress] : world_.progress) {
    const kvpage::SeqId real = world_.seq_ids.at(id);
    if (allocator_.content_lost(real)) continue;
    const auto table = allocator_.table(real).blocks;
    for (int t = 0; t < progress.written; ++t) {
      const std::uint64_t stored = shadow_.at(table[static_cast<std::size_t>(t / sizes_.block_size)].value, t % sizes_.block_size);
      require(stored == ShadowMemory::content(world_.cache.seqs.at(id).text, t), "a block contains the sequence's own prefix");
    }
  }
}

template <class A>
void ModelRunner<A>::seal() {
  compare();
  const auto sealed = std::count_if(steps_.begin(), steps_.end(), [](const Sealed& s) { return !s.committed; });
  const bool full = sealed >= 2 || steps_.size() >= 4;
  const auto step = txn_->seal();
  if (!agree("seal", step, full ? Outcome{"kBusy", 0, static_cast<int>(steps_.size())} : Outcome{})) return;
  execute();
  Sealed record{.id = *step, .before = std::move(before_), .copies = std::move(world_.copies), .lengths = {}, .touched = {},
                .committed = false};
  for (const auto& [id, seq] : world_.cache.seqs) record.lengths[id] = seq.num_tokens();
  const auto real = allocator_.copies(*step);
  require_equal(static_cast<std::int64_t>(real.size()), static_cast<std::int64_t>(record.copies.size()), "copies");
  for (std::size_t i = 0; i < real.size(); ++i) {
    require_equal(real[i].source.value, world_.block_of.at(record.copies[i].source), "copy source");
    require_equal(real[i].target.value, world_.block_of.at(record.copies[i].target), "copy target");
    require_equal(real[i].num_tokens, record.copies[i].num_tokens, "copied tokens");
  }
  world_.copies.clear();
  world_.cache.in_flight.insert(static_cast<int>(step->value));
  steps_.push_back(std::move(record));
  txn_.reset();
  mark_.reset();
  verify_content();
}

template <class A>
void ModelRunner<A>::commit_open() {
  compare();
  const bool sealed = std::any_of(steps_.begin(), steps_.end(), [](const Sealed& s) { return !s.committed; });
  const auto done = txn_->commit();
  if (!done) {
    require(done.error().kind == kvpage::CacheRefusalKind::kNeedsSeal, "a commit is refused only for want of a seal");
    require(!world_.copies.empty() || sealed, "a commit without copies and steps is not refused");
    return count("commit_open", "kNeedsSeal");
  }
  require(world_.copies.empty(), "copies need a launch");
  count("commit_open", sealed ? "behind a sealed step" : "done");
  execute();
  for (Sealed& step : steps_) {
    for (const auto& [id, seq] : before_.cache.seqs) {
      if (!world_.cache.seqs.contains(id) || world_.cut.contains(id)) step.touched.insert(id);
    }
  }
  if (!sealed) {
    for (auto& [id, progress] : world_.progress) progress.committed = progress.written;
  }
  txn_.reset();
  mark_.reset();
  verify_content();
}

template <class A>
void ModelRunner<A>::abort_open() {
  const bool evicted = world_.cache.index.size() < before_.cache.index.size();
  txn_->abort();
  txn_.reset();
  mark_.reset();
  world_ = before_;
  require(allocator_.digest() == digest_before_, "an abort restores the whole state");
  count("abort_open", evicted ? "after an eviction" : "done");
  verify_content();
}

/// Pending blocks of a retired step become cached or clean, in order.
template <class A>
void ModelRunner<A>::settle_pending(std::uint64_t step) {
  NaiveCache& cache = world_.cache;
  cache.in_flight.erase(static_cast<int>(step));
  auto waiting = std::move(cache.pending);
  cache.pending.clear();
  for (const auto& [waits_for, cell] : waiting) {
    if (waits_for != static_cast<int>(step)) {
      cache.pending.emplace_back(waits_for, cell);
    } else if (!cache.in_flight.empty() && *cache.in_flight.rbegin() < static_cast<int>(step)) {
      cache.pending.emplace_back(*cache.in_flight.rbegin(), cell);  // the step was aborted: an older one may name the block
    } else if (cache.indexed(cell)) {
      cache.lru.push_back(cell);
    }
  }
}

template <class A>
void ModelRunner<A>::commit_step(const Op& op) {
  const auto first = std::find_if(steps_.begin(), steps_.end(), [](const Sealed& s) { return !s.committed; });
  if (open() || first == steps_.end()) {
    agree("commit_step", allocator_.commit(kvpage::StepId{kNoSuchStep}),
          open() ? Outcome{"kBusy", 0, 1} : Outcome{"kOutOfOrder", kNoSuchStep, 0});
    return;
  }
  const bool later = op.a % 4 == 0;
  const bool blocked = !later && first != steps_.begin();
  const Outcome out_of_order{"kOutOfOrder", static_cast<std::int64_t>(first->id.value), static_cast<std::int64_t>(steps_[0].id.value)};
  const Outcome model = blocked ? out_of_order : Outcome{};
  if (!agree("commit_step", allocator_.commit(first->id, !later), model)) return;
  first->committed = true;
  for (const auto& [id, length] : first->lengths) {
    if (world_.progress.contains(id)) world_.progress[id].committed = std::max(world_.progress[id].committed, length);
  }
  if (!later) {
    const std::size_t known = world_.cache.lru.size();
    const Sealed done = std::move(steps_.front());
    steps_.erase(steps_.begin());
    world_.cache.in_flight.erase(static_cast<int>(done.id.value));
    for (const ModelWorld::Copy& copy : done.copies) world_.cache.unhold(copy.source);
    settle_pending(done.id.value);
    learn_order(known);
  }
  verify_content();
}

template <class A>
void ModelRunner<A>::retire(const Op&) {
  if (open() || steps_.empty() || !steps_[0].committed) {
    const std::int64_t turn = steps_.empty() ? 0 : static_cast<std::int64_t>(steps_[0].id.value);
    const std::int64_t asked = turn == 0 ? kNoSuchStep : turn;
    agree("retire", allocator_.retire(kvpage::StepId{static_cast<std::uint64_t>(asked)}),
          open() ? Outcome{"kBusy", 0, 1} : Outcome{"kOutOfOrder", asked, turn});
    return;
  }
  require(agree("retire", allocator_.retire(steps_[0].id), {}), "the oldest committed step retires");
  const std::size_t known = world_.cache.lru.size();
  const Sealed done = std::move(steps_.front());
  steps_.erase(steps_.begin());
  world_.cache.in_flight.erase(static_cast<int>(done.id.value));
  for (const ModelWorld::Copy& copy : done.copies) world_.cache.unhold(copy.source);
  settle_pending(done.id.value);
  learn_order(known);
}

}  // namespace kvpage_test

#include "cache_alloc/model_runner_cache.hpp"
