/// \file SimTier: the host tier of a simulated world, on a store that fails when it is told to.
#pragma once

#include <kvpage/cache/offload_tier.hpp>

#include <vector>

KVPAGE_BEGIN_NAMESPACE

/// Memory that refuses one access if told so.
class SimTierStore {
 public:
  static constexpr bool kPersistent = false;

  SimTierStore(std::span<std::byte> memory, const bool& broken) noexcept : inner_(memory), broken_(&broken) {}
  [[nodiscard]] std::int64_t capacity_bytes() const noexcept { return inner_.capacity_bytes(); }
  bool write(std::int64_t offset, std::span<const std::byte> bytes) noexcept { return !*broken_ && inner_.write(offset, bytes); }
  bool read(std::int64_t offset, std::span<std::byte> bytes) const noexcept { return !*broken_ && inner_.read(offset, bytes); }

 private:
  MemoryTierStore inner_;
  const bool* broken_;
};
static_assert(TierStore<SimTierStore>);

/// A tier, its memory, and a way to damage both.
class SimTier {
 public:
  using Tier = OffloadTier<SimTierStore>;

  explicit SimTier(const OffloadTierConfig& config)
      : pages_(static_cast<std::size_t>(config.num_slots * config.page_bytes)),
        table_(Tier::required_bytes(config)),
        tier(config, table_, SimTierStore{pages_, broken}) {}

  /// Changes one byte of the page in a slot.
  void damage(std::uint32_t slot, std::uint64_t word) {
    const auto page_bytes = static_cast<std::size_t>(tier.config().page_bytes);
    pages_[slot * page_bytes + word % page_bytes] ^= std::byte{0x40};
  }

  bool broken = false;  ///< every read and write fails

 private:
  std::vector<std::byte> pages_;
  std::vector<std::byte> table_;

 public:
  Tier tier;
};

KVPAGE_END_NAMESPACE
