/// \file TierTable: which content each slot of a host tier stores, found by portable key, in order of use.
#pragma once

#include <kvpage/cache/detail/prefix_map.hpp>
#include <kvpage/cache/portable_key.hpp>
#include <kvpage/cache/tier_content.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// What is known about a slot. Its links are in a BlockRecord: of the free list, or of the order of use.
enum class TierSlotState : std::uint8_t {
  kFree,      ///< in the free list
  kReserved,  ///< a demotion will fill it; in the map, but not found; in no list
  kStored,    ///< found by its key; in the order of use
  kLost,      ///< its page turned out bad while others hold it; neither found nor listed, free when the last hold ends
};

struct TierSlot {
  PortableKey key{};
  PrefixKey page_check{};  ///< of the page, see TierCheck
  std::uint32_t group = 0;
  std::uint32_t num_holds = 0;
  TierSlotState state = TierSlotState::kFree;
};

/// Owner of the slots' states. No bytes of pages here.
class TierTable {
 public:
  void attach(Arena& arena, std::int64_t num_slots, std::int64_t block_size) {
    slots_ = arena.cut<TierSlot>(num_slots);
    links_ = arena.cut<BlockRecord>(num_slots);
    tokens_ = arena.cut_raw<TokenId>(num_slots * block_size);
    map_.attach(arena, num_slots);
    block_size_ = static_cast<std::size_t>(block_size);
    for (std::size_t s = slots_.size(); s-- > 0;) free_.push_front(links_, static_cast<std::uint32_t>(s));
  }

  [[nodiscard]] std::int64_t num_slots() const noexcept { return static_cast<std::int64_t>(slots_.size()); }
  [[nodiscard]] std::int64_t num_free() const noexcept { return free_.size(); }
  [[nodiscard]] std::int64_t num_stored() const noexcept { return used_.size(); }
  [[nodiscard]] const TierSlot& operator[](std::uint32_t s) const noexcept { return slots_[s]; }
  [[nodiscard]] bool in_state(std::uint32_t s, TierSlotState state) const noexcept { return s < slots_.size() && slots_[s].state == state; }
  [[nodiscard]] std::span<const TokenId> tokens(std::uint32_t s) const noexcept { return {tokens_.data() + s * block_size_, block_size_}; }
  [[nodiscard]] std::span<TokenId> tokens(std::uint32_t s) noexcept { return {tokens_.data() + s * block_size_, block_size_}; }

  /// The slot that stores or will store this content, or kNoLink. Key and tokens are compared.
  [[nodiscard]] std::uint32_t find(const TierContent& content) const {
    return map_.find(map_key(content.key, content.group), [&](std::uint32_t s) {
      const std::span<const TokenId> own = tokens(s);
      return slots_[s].key == content.key && slots_[s].group == content.group &&
             std::equal(own.begin(), own.end(), content.tokens.begin(), content.tokens.end());
    });
  }
  [[nodiscard]] bool has_room(const TierContent& content) const noexcept { return map_.has_room(map_key(content.key, content.group)); }

  /// The slot that the next reservation takes: a free one, else the one stored and not held that was used least recently, else kNoLink.
  [[nodiscard]] std::uint32_t next_slot() const noexcept {
    if (!free_.empty()) return free_.head();
    std::uint32_t s = used_.head();
    while (s != kNoLink && slots_[s].num_holds > 0) s = links_[s].next;
    return s;
  }

  /// Slot s of next_slot will store this content; what it stored is forgotten. Requires: has_room(content).
  void reserve(std::uint32_t s, const TierContent& content) {
    if (slots_[s].state == TierSlotState::kStored) forget(s);
    free_.remove(links_, s);
    slots_[s] = {.key = content.key, .page_check = {}, .group = content.group, .num_holds = 0, .state = TierSlotState::kReserved};
    std::copy(content.tokens.begin(), content.tokens.end(), tokens(s).begin());
    const bool inserted = map_.insert(map_key(content.key, content.group), s);
    KVPAGE_ASSERT(inserted, "a place in the map was seen before a slot is reserved");
    static_cast<void>(inserted);
  }
  /// The reserved slot is filled.
  void fill(std::uint32_t s, const PrefixKey& page_check) noexcept {
    slots_[s].page_check = page_check;
    slots_[s].state = TierSlotState::kStored;
    used_.push_back(links_, s);
  }
  /// The slot's content is gone; the slot is free, or lost while it is held.
  void forget(std::uint32_t s) noexcept {
    map_.erase(map_key(slots_[s].key, slots_[s].group), s);
    if (slots_[s].state == TierSlotState::kStored) used_.remove(links_, s);
    slots_[s].state = TierSlotState::kLost;
    if (slots_[s].num_holds == 0) set_free(s);
  }

  /// Used now: last in the order of reuse. Requires: stored.
  void touch(std::uint32_t s) noexcept {
    used_.remove(links_, s);
    used_.push_back(links_, s);
  }
  void hold(std::uint32_t s) noexcept { ++slots_[s].num_holds; }
  void end_hold(std::uint32_t s) noexcept {
    if (--slots_[s].num_holds == 0 && slots_[s].state == TierSlotState::kLost) set_free(s);
  }

  /// Asserts that each slot has one owner: the free list, the order of use, a demotion, or the holders of a lost page; and that the map
  /// names exactly the slots with content. Cost: quadratic in the slots.
  void check() const {
    std::int64_t listed = 0;
    std::int64_t unlisted = 0;
    std::int64_t mapped = 0;
    free_.for_each_checked(links_, [&](std::uint32_t s) { listed += check_listed(s, TierSlotState::kFree); });
    used_.for_each_checked(links_, [&](std::uint32_t s) { listed += check_listed(s, TierSlotState::kStored); });
    for (std::uint32_t s = 0; s < slots_.size(); ++s) {
      const TierSlotState state = slots_[s].state;
      const bool content = state == TierSlotState::kStored || state == TierSlotState::kReserved;
      unlisted += state == TierSlotState::kReserved || state == TierSlotState::kLost ? 1 : 0;
      mapped += content ? 1 : 0;
      KVPAGE_ASSERT(map_.count(s) == (content ? 1 : 0), "a slot with content is once in the map, another one never");
      KVPAGE_ASSERT(!content || find({slots_[s].key, tokens(s), slots_[s].group}) == s, "content is found in its one slot");
      KVPAGE_ASSERT(state != TierSlotState::kFree || slots_[s].num_holds == 0, "a free slot is not held");
      KVPAGE_ASSERT(state != TierSlotState::kLost || slots_[s].num_holds > 0, "a lost page is held");
      KVPAGE_ASSERT(state != TierSlotState::kReserved || slots_[s].num_holds == 0, "a slot is filled before it is held");
    }
    KVPAGE_ASSERT(listed + unlisted == num_slots(), "every slot of the tier has one owner");
    KVPAGE_ASSERT(mapped == map_.size(), "the map of the tier holds the slots with content");
  }

 private:
  /// SHA-256 bits are as good as a hash; the group goes in so that the pages of one block spread.
  [[nodiscard]] static PrefixKey map_key(const PortableKey& key, std::uint32_t group) noexcept {
    PrefixKey folded{.lo = group * 0x9E37'79B9'7F4A'7C15u, .hi = 0};
    for (std::size_t i = 0; i < 8; ++i) folded.lo ^= std::to_integer<std::uint64_t>(key.bytes[i]) << (8 * i);
    return folded;
  }
  std::int64_t check_listed(std::uint32_t s, TierSlotState state) const {
    KVPAGE_ASSERT(slots_[s].state == state, "a list of the tier holds slots of its state");
    return 1;
  }
  void set_free(std::uint32_t s) noexcept {
    slots_[s].state = TierSlotState::kFree;
    free_.push_front(links_, s);
  }

  std::span<TierSlot> slots_;
  std::span<BlockRecord> links_;
  std::span<TokenId> tokens_;  // [num_slots, block_size]
  PrefixMap map_;
  BlockList free_;
  BlockList used_;  ///< stored slots, least recently used first
  std::size_t block_size_ = 1;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
