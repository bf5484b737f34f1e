/// \file PrefixMap: prefix key -> node, open addressing with 8-byte slots and backward-shift deletion.
#pragma once

#include <kvpage/cache/detail/prefix_node.hpp>

#include <bit>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// A key only proposes candidates: several nodes may have one key, and the caller compares their content. A search or an insert gives
/// up after kMaxProbes slots, so hostile or constant hashes cost a bounded time and lose hits, never correctness.
class PrefixMap {
 public:
  static constexpr std::uint32_t kMaxProbes = 64;

  void attach(Arena& arena, std::int64_t max_nodes) {
    const auto capacity = std::bit_ceil(static_cast<std::uint64_t>(max_nodes) * 2);
    slots_ = arena.cut<Slot>(static_cast<std::int64_t>(capacity));
    mask_ = static_cast<std::uint32_t>(capacity - 1);
  }

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  void prefetch(const PrefixKey& key) const noexcept { __builtin_prefetch(&slots_[tag_of(key) & mask_]); }

  /// The first candidate for which `accept(node)` holds, or kNoLink.
  template <class Accept>
  [[nodiscard]] std::uint32_t find(const PrefixKey& key, Accept&& accept) const {
    const std::uint32_t tag = tag_of(key);
    for (std::uint32_t probe = 0; probe < kMaxProbes; ++probe) {
      const Slot& slot = slots_[(tag + probe) & mask_];
      if (slot.node == kNoLink) return kNoLink;
      if (slot.tag == tag && accept(slot.node)) return slot.node;
    }
    return kNoLink;
  }

  /// True when `insert` would find a free slot.
  [[nodiscard]] bool has_room(const PrefixKey& key) const noexcept {
    for (std::uint32_t probe = 0; probe < kMaxProbes; ++probe) {
      if (slots_[(tag_of(key) + probe) & mask_].node == kNoLink) return true;
    }
    return false;
  }

  /// False when no slot is free within kMaxProbes.
  bool insert(const PrefixKey& key, std::uint32_t node) noexcept {
    const std::uint32_t tag = tag_of(key);
    for (std::uint32_t probe = 0; probe < kMaxProbes; ++probe) {
      Slot& slot = slots_[(tag + probe) & mask_];
      if (slot.node != kNoLink) continue;
      slot = {node, tag};
      ++size_;
      return true;
    }
    return false;
  }

  /// Requires: `node` was inserted under `key`.
  void erase(const PrefixKey& key, std::uint32_t node) noexcept {
    std::uint32_t hole = tag_of(key) & mask_;
    while (slots_[hole].node != node) hole = (hole + 1) & mask_;
    for (std::uint32_t next = (hole + 1) & mask_; slots_[next].node != kNoLink; next = (next + 1) & mask_) {
      // A slot may move into the hole unless its home lies behind the hole.
      if (((next - slots_[next].tag) & mask_) < ((next - hole) & mask_)) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole] = Slot{};
    --size_;
  }

  /// How often `node` occurs: 1 for an indexed node. Cost: linear.
  [[nodiscard]] std::int64_t count(std::uint32_t node) const noexcept {
    std::int64_t found = 0;
    for (const Slot& slot : slots_) found += slot.node == node ? 1 : 0;
    return found;
  }

 private:
  struct Slot {
    std::uint32_t node = kNoLink;
    std::uint32_t tag = 0;  ///< low key bits: home slot and a first comparison
  };
  static_assert(sizeof(Slot) == 8);

  [[nodiscard]] static std::uint32_t tag_of(const PrefixKey& key) noexcept { return static_cast<std::uint32_t>(key.lo); }

  std::span<Slot> slots_;
  std::uint32_t mask_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
