/// \file Keys, pages and tiers with their memory, for tests of the host tier.
#pragma once

#include "cache_alloc/allocator_fixture.hpp"

#include <kvpage/cache/offload_tier.hpp>

#include <memory>

namespace kvpage_test {

/// A key that is as good as any: number `n` hashed.
inline kvpage::PortableKey key_of(int n) {
  const kvpage::TokenId token[1] = {static_cast<kvpage::TokenId>(n)};
  return kvpage::portable_block_key({}, token);
}

/// Bytes that differ for every `version`.
inline std::vector<std::byte> page_bytes(std::size_t size, int version) {
  std::vector<std::byte> page(size);
  std::uint32_t state = static_cast<std::uint32_t>(version) * 2654435761u + 1;
  for (std::byte& b : page) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return page;
}

/// A tier with the memory of its table.
template <class Store>
class TierFixture {
 public:
  using Tier = kvpage::OffloadTier<Store>;

  TierFixture(const kvpage::OffloadTierConfig& config, Store store)
      : memory_(Tier::required_bytes(config)), tier_(config, memory_, std::move(store)) {}

  Tier* operator->() { return &tier_; }
  Tier& get() { return tier_; }

  /// Stores page `version` under content `n`; its slot, or kNoTierSlot when refused.
  std::uint32_t store(int n, int version) {
    const Tokens tokens = tokens_from(static_cast<kvpage::TokenId>(n), static_cast<std::size_t>(tier_.config().block_size));
    const auto demotion = tier_.reserve({key_of(n), tokens});
    if (!demotion) return kvpage::kNoTierSlot;
    const auto page = page_bytes(static_cast<std::size_t>(tier_.config().page_bytes), version);
    return !demotion->needs_copy || tier_.demote(demotion->slot, page) ? demotion->slot : kvpage::kNoTierSlot;
  }
  std::uint32_t find(int n) {
    const Tokens tokens = tokens_from(static_cast<kvpage::TokenId>(n), static_cast<std::size_t>(tier_.config().block_size));
    return tier_.find({key_of(n), tokens});
  }
  /// Loads a slot: its page, or the refusal.
  kvpage::TierResult<std::vector<std::byte>> load(std::uint32_t slot) {
    if (const auto held = tier_.hold(slot); !held) return kvpage::Unexpected{held.error()};
    std::vector<std::byte> page(static_cast<std::size_t>(tier_.config().page_bytes));
    if (const auto loaded = tier_.promote(slot, page); !loaded) return kvpage::Unexpected{loaded.error()};
    return page;
  }

 private:
  std::vector<std::byte> memory_;
  Tier tier_;
};

}  // namespace kvpage_test
