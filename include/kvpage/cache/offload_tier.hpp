/// \file OffloadTier: pages of evicted prefixes, kept outside the KV pool and brought back instead of being computed again.
#pragma once

#include <kvpage/cache/detail/tier_header.hpp>
#include <kvpage/cache/tier_refusal.hpp>
#include <kvpage/cache/tier_store.hpp>

#include <limits>

KVPAGE_BEGIN_NAMESPACE

/// Sizes of an OffloadTier.
struct OffloadTierConfig {
  std::int64_t num_slots = 0;    ///< pages that it can keep
  std::int64_t page_bytes = 0;   ///< of one page of the KV pool
  std::int64_t block_size = 16;  ///< tokens per page
  /// Names everything that decides what the bytes of a page mean: KV format, layout, block size, heads, dims, layers. A persistent store
  /// gives no page of another layout.
  std::uint64_t layout_id = 0;
  /// Of the checksums. With a secret, whoever can write the store still cannot make a page that passes; 0 = damage only.
  SipSecret checksum_secret = SipSecret::fixed(0, 0);
};

/// Where a slot's transfer stands.
enum class TierTransfer : std::uint8_t {
  kPending,  ///< reserved: its page is not there yet
  kDone,     ///< its page is stored and can be promoted
  kFailed,   ///< it stores nothing: the transfer failed, or its content was dropped or replaced
};

/// What `reserve` gives.
struct TierDemotion {
  std::uint32_t slot = kNoTierSlot;
  bool needs_copy = true;  ///< false: the tier has this content already, nothing is in flight
};

/// Counters of a tier. Ensures: free + stored + in_flight == num_slots.
struct TierCapacity {
  std::int64_t num_slots = 0;
  std::int64_t free = 0;
  std::int64_t stored = 0;     ///< pages that `find` finds
  std::int64_t in_flight = 0;  ///< reserved for demotions, or lost and still held
  friend constexpr bool operator==(const TierCapacity&, const TierCapacity&) = default;
};

/// A second level of the prefix cache, addressed by content: portable key, the tokens of the block, group. It keeps what it promoted, and
/// replaces what was used least recently. It moves bytes only when told to; `demote` and `promote` are the transfers of a plan.
///
/// One step of an engine, with `allocator` a BlockAllocator<PrefixIndex<>> whose options have portable_keys = true:
///
/// ```cpp
/// // 1. Plan. What the tier holds behind a device hit becomes a load: a step of transfers, before the prompt's first rows.
/// auto hit = allocator.match(query);
/// std::vector<std::uint32_t> slots(max_blocks * num_groups);
/// const std::int64_t extra = kvpage::hold_extension(tier, allocator.index(), query, hit, slots);  // none: a step as always, with 2.
/// hit = hit.without_partial();
/// auto plan = allocator.begin();
/// const auto seq = plan->create(query.name_space).value();
/// plan->share(seq, hit).value();
/// auto grown = plan->grow(seq, hit.num_tokens + extra * block_size);  // refused: release_slots(tier, slots), a step as always
/// // 2. Last before every seal: save what the plan overwrites. The slots held above are safe from it.
/// kvpage::demote_victims(tier, *plan, [&](kvpage::BlockId block, std::uint32_t slot) { demotions.push_back({block, slot}); });
/// // 3. Transfers of the load follow those of the victims, block by block, group by group: table(seq, g).blocks[hit.num_blocks + i].
/// const auto step = plan->seal();        // refused or dropped plan: tier.cancel(slot) per demotion, release_slots(tier, slots)
/// // 4. Run, in order: demotions, promotions, copies, forward pass.
/// tier.demote(slot, page_of(block));     // refused: that content is lost, nothing else
/// if (!tier.promote(slots[k], page_of(block))) slots[k] = kvpage::kNoTierSlot;   // failed or corrupt: the hit ends before it
/// // 5. Commit; cut the sequence to what arrived, then publish it: from here on it is an ordinary cached prefix.
/// allocator.commit(*step).value();
/// const std::int64_t loaded = hit.num_tokens + block_size * kvpage::usable_extension(allocator.index(), hit, slots);
/// auto cut = allocator.begin();
/// cut->truncate(seq, loaded).value();    // and release_before(seq, g, loaded) for each sliding-window group g
/// cut->commit().value();
/// allocator.publish(seq, {.tokens = query.tokens.first(loaded)}).value();
/// // The prompt goes on at min(loaded, prompt - 1), as after any hit. Abort of a sealed step: transfers that ran stay as they are
/// // (the demoted content is still what its key says); those that did not run are cancelled and released as in 3.
/// ```
///
/// Memory: the caller's, required_bytes(config) of it, laid out once; nothing is allocated afterwards. Threads: one owner.
/// Errors: the constructor throws ConfigError; everything else refuses with a TierRefusal and, unless it says otherwise, changes nothing.
/// Cost: O(block_size) per call, plus the store's and the checksum's work on a page; reserve skips held slots one by one.
template <TierStore Store = MemoryTierStore>
class OffloadTier {
 public:
  /// Bytes that the constructor needs for its table. Errors: ConfigError.
  [[nodiscard]] static std::size_t required_bytes(const OffloadTierConfig& config) {
    validate(config);
    detail::Arena measure;
    detail::TierTable{}.attach(measure, config.num_slots, config.block_size);
    return measure.used_bytes() + detail::Arena::kAlignment;
  }

  /// Bytes of the store that one slot takes.
  [[nodiscard]] static std::int64_t slot_bytes(const OffloadTierConfig& config) noexcept {
    return header_bytes(config) + config.page_bytes;
  }

  /// An empty tier, or, over a persistent store, what the store still has: slots whose header is damaged, of another layout, or of
  /// content already found are free. Pages are checked when they are promoted. `memory` must outlive the tier. Errors: ConfigError;
  /// nothing was written then.
  OffloadTier(const OffloadTierConfig& config, std::span<std::byte> memory, Store store) : config_(config), store_(std::move(store)) {
    if (const std::size_t required = required_bytes(config); memory.size() < required) {
      throw_config_error("the memory given is smaller than required_bytes", static_cast<std::int64_t>(memory.size()),
                         static_cast<std::int64_t>(required), "bytes");
    }
    const auto need = checked_mul(config.num_slots, slot_bytes(config));
    if (!need || *need > store_.capacity_bytes()) {
      throw_config_error("the store is smaller than the slots of the tier", store_.capacity_bytes(),
                         need.value_or(std::numeric_limits<std::int64_t>::max()), "bytes");
    }
    detail::Arena arena{memory};
    table_.attach(arena, config.num_slots, config.block_size);
    if constexpr (Store::kPersistent) recover();
  }
  OffloadTier(const OffloadTier&) = delete;
  OffloadTier& operator=(const OffloadTier&) = delete;

  /// The slot that stores this content, or kNoTierSlot. Changes nothing; `hold` the slot before anything else may replace it.
  [[nodiscard]] std::uint32_t find(const TierContent& content) const {
    const std::uint32_t s = table_.find(content);
    return table_.in_state(s, detail::TierSlotState::kStored) ? s : kNoTierSlot;
  }

  /// A slot for this content, in flight until `demote` or `cancel`. Content that is stored already counts as used now.
  /// Errors: kBadContent, kNoFreeSlot, kInFlight (it is reserved already), kTableFull.
  TierResult<TierDemotion> reserve(const TierContent& content) {
    const auto given = static_cast<std::int64_t>(content.tokens.size());
    if (given != config_.block_size || !content.key.named()) {
      return refuse(TierRefusalKind::kBadContent, config_.block_size, given);
    }
    if (const std::uint32_t known = table_.find(content); known != detail::kNoLink) {
      if (table_[known].state == detail::TierSlotState::kReserved) return refuse(TierRefusalKind::kInFlight, 0, 1);
      table_.touch(known);
      return TierDemotion{known, false};
    }
    const std::uint32_t s = table_.next_slot();
    if (s == detail::kNoLink) return refuse(TierRefusalKind::kNoFreeSlot, 1, 0);
    if (!table_.has_room(content)) {
      return refuse(TierRefusalKind::kTableFull, detail::PrefixMap::kMaxProbes + 1, detail::PrefixMap::kMaxProbes);
    }
    table_.reserve(s, content);
    return TierDemotion{s, true};
  }

  /// Stores the page of a reserved slot; from now on it is found. Errors: kNotReserved, kBadPage; kStoreFailed: the slot is free.
  TierResult<void> demote(std::uint32_t slot, std::span<const std::byte> page) {
    if (!table_.in_state(slot, detail::TierSlotState::kReserved)) return wrong_slot(TierRefusalKind::kNotReserved, slot);
    if (const auto fits = check_page(page.size()); !fits) return fits;
    const PrefixKey page_check = check()(page);
    if (!store_.write(offset(slot) + header_bytes(config_), page) || !write_header(slot, page_check)) {
      discard(slot);
      return refuse(TierRefusalKind::kStoreFailed, slot_bytes(config_), 0);
    }
    table_.fill(slot, page_check);
    return {};
  }

  /// The demotion of a reserved slot does not happen; the slot is free. Errors: kNotReserved.
  TierResult<void> cancel(std::uint32_t slot) {
    if (!table_.in_state(slot, detail::TierSlotState::kReserved)) return wrong_slot(TierRefusalKind::kNotReserved, slot);
    discard(slot);
    return {};
  }

  /// Keeps a stored slot for one promotion, until `promote` or `release`; it counts as used now. Errors: kNotHeld (it stores nothing).
  TierResult<void> hold(std::uint32_t slot) {
    if (!table_.in_state(slot, detail::TierSlotState::kStored)) return wrong_slot(TierRefusalKind::kNotHeld, slot);
    table_.touch(slot);
    table_.hold(slot);
    return {};
  }

  /// Loads a held slot into `page` and ends one hold. Errors: kNotHeld, kBadPage: nothing changes. kStoreFailed, kCorrupt: the hold ends,
  /// `page` is undefined, and the content leaves the tier: it is not found any more, and other holders are refused as kCorrupt.
  TierResult<void> promote(std::uint32_t slot, std::span<std::byte> page) {
    if (!is_held(slot)) return wrong_slot(TierRefusalKind::kNotHeld, slot);
    if (const auto fits = check_page(page.size()); !fits) return fits;
    const TierResult<void> loaded = load(slot, page);
    if (!loaded && table_[slot].state == detail::TierSlotState::kStored) discard(slot);
    table_.end_hold(slot);
    return loaded;
  }

  /// Ends one hold without a load. Errors: kNotHeld.
  TierResult<void> release(std::uint32_t slot) {
    if (!is_held(slot)) return wrong_slot(TierRefusalKind::kNotHeld, slot);
    table_.end_hold(slot);
    return {};
  }

  /// Forgets the content of a stored slot that is not held. Errors: kInFlight, kNotHeld (it stores nothing); kStoreFailed: forgotten here,
  /// but its header could not be overwritten, so a later start may find it again.
  TierResult<void> drop(std::uint32_t slot) {
    if (slot < config_.num_slots && table_[slot].num_holds > 0) return refuse(TierRefusalKind::kInFlight, 0, table_[slot].num_holds);
    if (table_.in_state(slot, detail::TierSlotState::kReserved)) return refuse(TierRefusalKind::kInFlight, 0, 1);
    if (!table_.in_state(slot, detail::TierSlotState::kStored)) return wrong_slot(TierRefusalKind::kNotHeld, slot);
    return discard(slot) ? TierResult<void>{} : refuse(TierRefusalKind::kStoreFailed, header_bytes(config_), 0);
  }

  /// Forgets all that is stored, as BlockAllocator::reset does in the pool. Errors: as drop, for any slot; kInFlight changes nothing.
  TierResult<void> clear() {
    for (std::uint32_t s = 0; s < config_.num_slots; ++s) {
      if (is_held(s) || table_.in_state(s, detail::TierSlotState::kReserved)) return wrong_slot(TierRefusalKind::kInFlight, s);
    }
    bool done = true;
    const auto is_stored = [this](std::uint32_t s) { return table_.in_state(s, detail::TierSlotState::kStored); };
    for (std::uint32_t s = 0; s < config_.num_slots; ++s) done = (!is_stored(s) || discard(s)) && done;
    return done ? TierResult<void>{} : refuse(TierRefusalKind::kStoreFailed, header_bytes(config_), 0);
  }

  /// Where the slot's transfer stands. Stores of this version finish inside demote and promote.
  [[nodiscard]] TierTransfer poll(std::uint32_t slot) const noexcept {
    if (table_.in_state(slot, detail::TierSlotState::kReserved)) return TierTransfer::kPending;
    return table_.in_state(slot, detail::TierSlotState::kStored) ? TierTransfer::kDone : TierTransfer::kFailed;
  }

  [[nodiscard]] TierCapacity capacity() const noexcept {
    return {.num_slots = config_.num_slots, .free = table_.num_free(), .stored = table_.num_stored(),
            .in_flight = config_.num_slots - table_.num_free() - table_.num_stored()};
  }
  [[nodiscard]] const OffloadTierConfig& config() const noexcept { return config_; }

  /// Recounts the slots and asserts that each has one owner. Cost: quadratic in the slots.
  void check_invariants() const { table_.check(); }

 private:
  static void validate(const OffloadTierConfig& config) {
    constexpr std::int64_t kMaxSlots = 1 << 30;
    if (config.num_slots < 1 || config.num_slots > kMaxSlots) {
      throw_config_error("a tier has between 1 and 2^30 slots; leave it out for none", config.num_slots, kMaxSlots, "slots");
    }
    if (config.page_bytes < 1) throw_config_error("page_bytes must be at least 1", config.page_bytes, 1, "bytes");
    if (config.block_size < 1 || config.block_size > detail::TierHeader::kMaxBlockSize) {
      throw_config_error("block_size must be in [1, 1024]", config.block_size, detail::TierHeader::kMaxBlockSize, "tokens");
    }
  }
  [[nodiscard]] static constexpr std::int64_t header_bytes(const OffloadTierConfig& config) noexcept {
    return Store::kPersistent ? detail::TierHeader::size_bytes(config.block_size) : 0;
  }
  static Unexpected<TierRefusal> refuse(TierRefusalKind kind, std::int64_t need, std::int64_t available) noexcept {
    return {TierRefusal{kind, need, available}};
  }
  [[nodiscard]] Unexpected<TierRefusal> wrong_slot(TierRefusalKind kind, std::uint32_t slot) const noexcept {
    return refuse(kind, slot, config_.num_slots);
  }
  [[nodiscard]] TierResult<void> check_page(std::size_t size) const {
    if (static_cast<std::int64_t>(size) == config_.page_bytes) return {};
    return refuse(TierRefusalKind::kBadPage, config_.page_bytes, static_cast<std::int64_t>(size));
  }
  [[nodiscard]] bool is_held(std::uint32_t slot) const noexcept { return slot < config_.num_slots && table_[slot].num_holds > 0; }
  [[nodiscard]] std::int64_t offset(std::uint32_t slot) const noexcept { return slot * slot_bytes(config_); }
  [[nodiscard]] detail::TierCheck check() const noexcept { return {config_.checksum_secret}; }
  [[nodiscard]] detail::TierHeader header() const noexcept { return {config_.layout_id, config_.page_bytes, config_.block_size}; }

  [[nodiscard]] TierResult<void> load(std::uint32_t slot, std::span<std::byte> page) {
    if (table_[slot].state == detail::TierSlotState::kLost) return refuse(TierRefusalKind::kCorrupt, 0, 0);
    if (!store_.read(offset(slot) + header_bytes(config_), page)) return refuse(TierRefusalKind::kStoreFailed, config_.page_bytes, 0);
    if (check()(page) != table_[slot].page_check) return refuse(TierRefusalKind::kCorrupt, config_.page_bytes, 0);
    return {};
  }

  bool write_header(std::uint32_t slot, const PrefixKey& page_check) {
    if constexpr (Store::kPersistent) {
      detail::TierHeader head = header();
      detail::TierSlot written = table_[slot];
      written.page_check = page_check;
      head.write(written, table_.tokens(slot), check());
      return store_.write(offset(slot), head.bytes());
    }
    return true;
  }

  /// Forgets a slot's content, in the store too: a free slot has no header. False when the store failed.
  bool discard(std::uint32_t slot) {
    table_.forget(slot);
    if constexpr (Store::kPersistent) {
      detail::TierHeader zeros = header();
      return store_.write(offset(slot), zeros.bytes());
    }
    return true;
  }

  void recover() {
    detail::TierHeader head = header();
    for (std::uint32_t s = 0; s < config_.num_slots; ++s) {
      detail::TierSlot found;
      if (!store_.read(offset(s), head.bytes()) || !head.read(found, table_.tokens(s), check())) continue;
      const TierContent content{found.key, table_.tokens(s), found.group};
      if (table_.find(content) != detail::kNoLink || !table_.has_room(content)) continue;
      table_.reserve(s, content);
      table_.fill(s, found.page_check);
    }
  }

  OffloadTierConfig config_;
  Store store_;
  detail::TierTable table_;
};

KVPAGE_END_NAMESPACE
