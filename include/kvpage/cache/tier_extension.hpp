/// \file Between a prefix index and a host tier: how far the tier continues a device hit, and what a plan sends to it.
#pragma once

#include <kvpage/cache/cache_transaction.hpp>
#include <kvpage/cache/offload_tier.hpp>
#include <kvpage/cache/prefix_index.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The full blocks behind `hit` that are usable when slots[i * num_groups + g] names a page of block i in group g, or kNoTierSlot: with
/// full attention alone, those before the first missing one; a sliding-window group misses only what the next token looks back at.
/// Shapes: slots: [max_blocks, num_groups].
template <class Index>
[[nodiscard]] std::int64_t usable_extension(const Index& index, const PrefixHit& hit, std::span<const std::uint32_t> slots) {
  const BlockAllocatorConfig& config = index.config();
  const auto groups = static_cast<std::size_t>(config.num_groups);
  std::array<std::int64_t, static_cast<std::size_t>(kMaxCacheGroups)> run{};  // blocks in a row that each group has up to here
  for (std::size_t g = 0; g < groups; ++g) {
    const auto group = static_cast<std::int64_t>(g);
    run[g] = hit.num_blocks - std::min<std::int64_t>(hit.num_blocks, index.first_needed(group, hit.num_blocks * config.block_size));
  }
  std::int64_t usable = 0;
  for (std::size_t i = 0; (i + 1) * groups <= slots.size(); ++i) {
    const std::int64_t depth = hit.num_blocks + static_cast<std::int64_t>(i) + 1;
    bool complete = true;
    for (std::size_t g = 0; g < groups; ++g) {
      run[g] = slots[i * groups + g] == kNoTierSlot ? 0 : run[g] + 1;
      complete = complete && run[g] >= depth - index.first_needed(static_cast<std::int64_t>(g), depth * config.block_size);
    }
    if (complete) usable = depth - hit.num_blocks;
  }
  return usable;
}

/// Looks for the full blocks of a prompt behind a device hit, holds the slots that a load of them needs, and returns how many blocks the
/// hit grows by. slots[i * num_groups + g] becomes the slot of block hit.num_blocks + i in group g; entries that need no load, and all
/// behind the end, are kNoTierSlot. Every held slot must be promoted or released. The last block is held first: it is replaced first.
/// Shapes: slots: [max_blocks, num_groups]. Requires: portable keys; a hit of this index for this query. Cost: one SHA-256 and one
/// look-up per group for each block found.
template <class Index, TierStore Store>
[[nodiscard]] std::int64_t hold_extension(OffloadTier<Store>& tier, const Index& index, const PrefixQuery& query, const PrefixHit& hit,
                                          std::span<std::uint32_t> slots) {
  KVPAGE_ASSERT(index.portable_keys(), "a tier is addressed by portable keys: set PrefixIndexOptions::portable_keys");
  const auto groups = static_cast<std::size_t>(index.config().num_groups);
  const auto block = static_cast<std::size_t>(index.config().block_size);
  std::fill(slots.begin(), slots.end(), kNoTierSlot);
  if (!index.tree().alive(hit.node, hit.generation)) return 0;  // of no namespace, or stale: share refuses it
  const auto limit = static_cast<std::size_t>(std::clamp<std::int64_t>(query.max_tokens, 0, std::ssize(query.tokens)));
  const std::span<const TokenId> tokens = query.tokens.first(limit);
  PortableKey key = index.portable_key(hit.node);
  for (std::size_t i = 0; (i + 1) * groups <= slots.size() && (hit.num_blocks + i + 1) * block <= limit; ++i) {
    const auto content = tokens.subspan((hit.num_blocks + i) * block, block);
    const auto at = static_cast<std::int64_t>(hit.num_blocks + i);
    key = Index::portable_child(key, Index::extra_at(query.extras, at), content, Index::extra_content_at(query.extras, at));
    bool any = false;
    for (std::size_t g = 0; g < groups && key.named(); ++g) {
      slots[i * groups + g] = tier.find({key, content, static_cast<std::uint32_t>(g)});
      any = any || slots[i * groups + g] != kNoTierSlot;
    }
    if (!any) break;
  }
  const std::int64_t usable = usable_extension(index, hit, slots);
  const std::int64_t depth = hit.num_blocks + usable;
  for (std::size_t k = slots.size(); k-- > 0;) {
    const auto at = hit.num_blocks + static_cast<std::int64_t>(k / groups);
    const auto group = static_cast<std::int64_t>(k % groups);
    const bool needed = at < depth && at >= index.first_needed(group, depth * index.config().block_size);
    if (!needed || slots[k] == kNoTierSlot) {
      slots[k] = kNoTierSlot;
      continue;
    }
    const auto held = tier.hold(slots[k]);
    KVPAGE_ASSERT(held.has_value(), "a slot that was just found can be held");
  }
  return usable;
}

/// Ends the holds of slots that are not promoted after all; the entries become kNoTierSlot.
template <TierStore Store>
void release_slots(OffloadTier<Store>& tier, std::span<std::uint32_t> slots) {
  for (std::uint32_t& slot : slots) {
    if (slot == kNoTierSlot) continue;
    const auto released = tier.release(std::exchange(slot, kNoTierSlot));
    KVPAGE_ASSERT(released.has_value(), "only held slots are released");
  }
}

/// Reserves a slot for each full block that the open transaction overwrites and whose retention priority is at least `min_priority`, and
/// calls emit(BlockId, slot) for each page that must be copied there before the step runs. A hit needs a block in every group, so the
/// pages of the other groups, which may stay in the pool for a while, are saved with it. Content that the tier has already needs no
/// copy; content for which it has no slot is lost, as without a tier. Returns how many pages are to be copied.
template <class Core, TierStore Store, class Emit>
std::int64_t demote_victims(OffloadTier<Store>& tier, const CacheTransaction<Core>& transaction, Emit&& emit,
                            std::uint8_t min_priority = kDefaultRetentionPriority) {
  std::int64_t num_demoted = 0;
  transaction.for_each_victim([&](const CacheVictim& victim) {
    if (victim.priority < min_priority || std::ssize(victim.tokens) != tier.config().block_size) return;
    for (std::size_t g = 0; g < victim.pages.size(); ++g) {
      if (victim.pages[g] == kNoBlock) continue;
      const auto demotion = tier.reserve({victim.key, victim.tokens, static_cast<std::uint32_t>(g)});
      if (!demotion || !demotion->needs_copy) continue;
      emit(victim.pages[g], demotion->slot);
      ++num_demoted;
    }
  });
  return num_demoted;
}

KVPAGE_END_NAMESPACE
