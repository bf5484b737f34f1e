/// \file TierStore: where the bytes of an OffloadTier lie, and MemoryTierStore, which keeps them in the caller's memory.
#pragma once

#include <kvpage/base/types.hpp>

#include <algorithm>
#include <concepts>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// Bytes at offsets, which may fail.
///
/// - `write(offset, bytes)`, `read(offset, bytes)`: all of them or false; after a false the bytes concerned are undefined.
/// - `capacity_bytes()`: offsets below it can be tried.
/// - `kPersistent`: bytes outlive the process. Then each slot starts with a header from which a tier finds its content again.
template <class S>
concept TierStore = std::movable<S> && requires(S store, const S constant, std::int64_t offset, std::span<const std::byte> in,
                                                std::span<std::byte> out) {
  { S::kPersistent } -> std::convertible_to<bool>;
  { constant.capacity_bytes() } -> std::same_as<std::int64_t>;
  { store.write(offset, in) } -> std::same_as<bool>;
  { store.read(offset, out) } -> std::same_as<bool>;
};

/// Slots in memory that the caller owns (plain, or page-locked for a device). Never fails.
class MemoryTierStore {
 public:
  static constexpr bool kPersistent = false;

  /// Requires: `memory` outlives the store.
  explicit MemoryTierStore(std::span<std::byte> memory) noexcept : memory_(memory) {}

  [[nodiscard]] std::int64_t capacity_bytes() const noexcept { return static_cast<std::int64_t>(memory_.size()); }
  bool write(std::int64_t offset, std::span<const std::byte> bytes) noexcept {
    std::copy(bytes.begin(), bytes.end(), memory_.begin() + offset);
    return true;
  }
  bool read(std::int64_t offset, std::span<std::byte> bytes) const noexcept {
    std::copy_n(memory_.begin() + offset, bytes.size(), bytes.begin());
    return true;
  }

 private:
  std::span<std::byte> memory_;
};
static_assert(TierStore<MemoryTierStore>);

KVPAGE_END_NAMESPACE
