/// \file SchedulableCache: what a scheduler asks of the allocator that owns its sequences, as a type.
#pragma once

#include <kvpage/cache/block_allocator_config.hpp>
#include <kvpage/cache/cache_transaction.hpp>
#include <kvpage/cache/capacity_snapshot.hpp>
#include <kvpage/cache/prefix_hit.hpp>

#include <concepts>

KVPAGE_BEGIN_NAMESPACE

/// Sequences with a table of blocks per group, changed in transactions that are sealed as steps. BlockAllocator is one.
template <class C>
concept SchedulableCache = requires(C& cache, const C& c, typename C::Transaction& txn, SeqId seq, StepId step, BlockId block) {
  cache.begin();
  cache.commit(step);
  cache.abort(step);
  { c.config() } -> std::convertible_to<const BlockAllocatorConfig&>;
  { c.capacity() } -> std::convertible_to<CapacitySnapshot>;
  { c.table(seq, std::int64_t{}) } -> std::convertible_to<BlockTable>;
  { c.num_tokens(seq) } -> std::convertible_to<std::int64_t>;
  { c.ref_count(block) } -> std::convertible_to<std::int64_t>;
  { c.alive(seq) } -> std::convertible_to<bool>;
  { c.content_lost(seq) } -> std::convertible_to<bool>;
  { txn.mark() } -> std::convertible_to<Savepoint>;
  txn.grow(seq, std::int64_t{});
  txn.fork(seq);
  txn.release(seq);
  txn.seal();
};

/// One that finds the blocks of common prefixes again.
template <class C>
concept IndexedCache = SchedulableCache<C> && requires(C& cache, const PrefixQuery& query) {
  { cache.match(query) } -> std::convertible_to<PrefixHit>;
};

/// One that may have a host tier.
template <class C>
concept TieredCache = IndexedCache<C> && requires(C& cache) { cache.tier(); };

KVPAGE_END_NAMESPACE
