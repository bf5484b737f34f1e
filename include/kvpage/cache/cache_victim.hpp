/// \file CacheVictim: cached content that the open transaction is about to overwrite, and the visit of all of it.
#pragma once

#include <kvpage/cache/detail/allocator_core.hpp>
#include <kvpage/cache/portable_key.hpp>

#include <array>

KVPAGE_BEGIN_NAMESPACE

/// One cached block that the open transaction took for new content. Its page still holds the old content, which was findable before and
/// is lost once the step runs. Valid until the transaction is sealed, committed or aborted.
struct CacheVictim {
  BlockId block = kNoBlock;           ///< the page to save
  std::int64_t group = 0;
  PortableKey key{};                  ///< of the content, with everything before it
  PortableKey parent{};               ///< of everything before it
  std::span<const TokenId> tokens{};  // [num_tokens], block_size of them, fewer in a partial leaf
  std::uint8_t priority = kDefaultRetentionPriority;
  /// Pages of the same content in every group, this one's among them; kNoBlock where there is none. A tier that takes them together
  /// never holds a block of one group without the others that a hit needs.
  std::array<BlockId, static_cast<std::size_t>(kMaxCacheGroups)> pages{kNoBlock, kNoBlock, kNoBlock, kNoBlock};
};

namespace detail {

/// Calls fn(CacheVictim) for every victim of the open transaction with a portable key, in the order in which they were taken.
template <class Core, class Fn>
void for_each_victim(const Core& core, Fn&& fn) {
  const auto& index = core.index;
  KVPAGE_ASSERT(index.portable_keys(), "victims are known by portable keys: set PrefixIndexOptions::portable_keys");
  for (std::uint64_t p = core.log_begin(); p < core.log.end(); ++p) {
    const UndoEntry& e = core.log.at(p);
    if (e.kind() != UndoKind::kTakeVictim) continue;
    const std::uint32_t n = core.pool.record(e.block()).node;
    if (!index.portable_key(n).named()) continue;
    CacheVictim victim{.block = BlockId{e.block()}, .group = index.tree().group_of(n, e.block()), .key = index.portable_key(n),
                       .parent = index.portable_key(index.tree()[n].parent), .tokens = index.tree().tokens(n),
                       .priority = index.tree().retention(n).priority};
    for (std::size_t g = 0; g < static_cast<std::size_t>(core.config.num_groups); ++g) victim.pages[g] = BlockId{index.tree()[n].block[g]};
    fn(victim);
  }
}

}  // namespace detail
KVPAGE_END_NAMESPACE
