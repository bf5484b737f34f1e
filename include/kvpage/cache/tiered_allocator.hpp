/// \file TieredAllocator: a BlockAllocator that knows a host tier, so that a scheduler moves pages between the two by itself.
#pragma once

#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/cache/tier_extension.hpp>

KVPAGE_BEGIN_NAMESPACE

/// A BlockAllocator with an OffloadTier beside it, or with none. It plans nothing by itself: ContinuousScheduler saves what a step
/// overwrites and loads what a prompt continues with, see its documentation.
/// Allocator: a BlockAllocator over a PrefixIndex. Tier: an OffloadTier. The tier is the caller's and outlives its use here.
template <class Allocator, class Tier>
class TieredAllocator : public Allocator {
 public:
  using Allocator::Allocator;

  /// The tier, or null.
  [[nodiscard]] Tier* tier() const noexcept { return tier_; }

  /// Uses `tier` from now on; null = none. Requires: no transaction is open, no step is in flight.
  /// Errors: ConfigError when its blocks are of another size, or the index has no portable keys.
  void use_tier(Tier* tier) {
    if (tier != nullptr && tier->config().block_size != this->config().block_size) {
      throw_config_error("the host tier needs the block size of the pool", tier->config().block_size, this->config().block_size, "tokens");
    }
    if (tier != nullptr && !this->index().portable_keys()) {
      throw_config_error("a host tier needs PrefixIndexOptions::portable_keys", 0, 1, "keys");
    }
    tier_ = tier;
  }

 private:
  Tier* tier_ = nullptr;
};

KVPAGE_END_NAMESPACE
