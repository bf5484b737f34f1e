/// \file BlockAllocator: a fixed pool of KV blocks shared by sequences, with transactions, forks and a prefix cache.
#pragma once

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/cache/cache_transaction.hpp>
#include <kvpage/cache/detail/allocator_check.hpp>
#include <kvpage/cache/detail/pin_ops.hpp>
#include <kvpage/cache/eviction_lru.hpp>
#include <kvpage/cache/prefix_index.hpp>

KVPAGE_BEGIN_NAMESPACE

/// What reset does when sequences are running.
enum class CacheReset : std::uint8_t { kIfIdle, kDetach };

/// Hands out the blocks of one KV pool to sequences, exactly and all or nothing.
///
/// It owns ids, counts and tables, never the KV bytes. Every change is made in a transaction: reserve all or nothing, look at the
/// result, then seal it for a launch, commit it directly, or drop it. One engine step with one sequence:
///
/// ```cpp
/// using Allocator = kvpage::BlockAllocator<kvpage::NoIndex>;
/// const kvpage::BlockAllocatorConfig config{.num_blocks = 256, .block_size = 16, .max_seqs = 1};
/// Allocator allocator{config};
///
/// auto plan = allocator.begin();            // Expected: refused while another one is open
/// const auto seq = plan->create();          // Expected<SeqId, CacheRefusal>
/// if (auto grown = plan->grow(*seq, prompt.size()); !grown) {
///   // grown.error() = {kNoBlocks, need, available}; nothing changed, dropping `plan` takes the create back
/// }
/// const auto step = plan->seal();           // just before the launch; *step names it
///
/// const kvpage::BlockTable table = allocator.table(*seq);
/// // token t lives in block table.blocks[t / 16], row t % 16: append_kv and paged_attention read these ids
/// run_model(prompt, table.blocks);
/// allocator.commit(*step).value();          // the step has run: its changes are final
///
/// auto next = allocator.begin();            // one decode step: one more token
/// next->grow(*seq, prompt.size() + 1).value();
/// const auto second = next->seal();
/// if (!run_model(token, allocator.table(*seq).blocks)) {
///   allocator.abort(*second).value();       // refs, tables and counts as before
/// } else {
///   allocator.commit(*second).value();
/// }
///
/// auto end = allocator.begin();             // nothing to launch: commit directly
/// end->truncate(*seq, 5).value();           // roll back to 5 tokens ...
/// end->release(*seq).value();               // ... or end the sequence; its id is dead now
/// end->commit().value();
/// ```
///
/// Index: NoIndex or PrefixIndex. Evict: an EvictionPolicy. Events: an EventSink.
/// Memory: required_bytes(config), its own or the caller's, laid out once; nothing is allocated afterwards. Sequence tables are
/// fixed-stride rows (max_seqs x num_groups x max_blocks_per_seq ids) and untouched pages of them cost no resident memory.
/// Errors: the constructor throws ConfigError; everything else refuses with a CacheRefusal and changes nothing.
/// Threads: one owner. Cost: O(1) per block concerned, plus what the policy states.
template <class Index = PrefixIndex<>, EvictionPolicy Evict = Lru, EventSink Events = NoEvents>
class BlockAllocator {
  using Core = detail::AllocatorCore<Index, Evict, Events>;

 public:
  using Transaction = CacheTransaction<Core>;
  using IndexOptions = typename Index::Options;

  /// Bytes that the constructor needs. Errors: ConfigError.
  [[nodiscard]] static std::size_t required_bytes(const BlockAllocatorConfig& config, const IndexOptions& options = IndexOptions{},
                                                  Evict policy = Evict{}) {
    return measure(config, options, policy);
  }

  /// Lays itself out in memory of its own. Errors: ConfigError; std::bad_alloc.
  explicit BlockAllocator(const BlockAllocatorConfig& config, const IndexOptions& options = IndexOptions{}, Evict policy = Evict{},
                          Events events = Events{})
      : BlockAllocator(AlignedBytes(static_cast<std::int64_t>(measure(config, options, policy))), config, options, policy, events) {}

  /// Lays itself out in `memory`, which must outlive it. Errors: ConfigError; nothing was written then.
  explicit BlockAllocator(const BlockAllocatorConfig& config, std::span<std::byte> memory, const IndexOptions& options = IndexOptions{},
                          Evict policy = Evict{}, Events events = Events{}) : core_{.events = std::move(events)} {
    const std::size_t required = measure(config, options, policy);
    if (memory.size() < required) {
      throw_config_error("the memory given is smaller than required_bytes", static_cast<std::int64_t>(memory.size()),
                         static_cast<std::int64_t>(required), "bytes");
    }
    detail::Arena arena{memory};
    core_.attach(arena, config.with_defaults(), options, std::move(policy));
  }
  BlockAllocator(const BlockAllocator&) = delete;
  BlockAllocator& operator=(const BlockAllocator&) = delete;

  /// Opens the transaction. Errors: kBusy while another one is open.
  [[gnu::always_inline]] CacheResult<Transaction> begin() {
    if (core_.open()) return detail::refuse(CacheRefusalKind::kBusy, 0, 1);
    core_.is_open = true;
    ++core_.transaction;
    return Transaction{core_};
  }

  /// The oldest sealed step has run: its changes are final. With `retire` (the default) nothing on the device names its blocks any
  /// more either; without, they wait for `retire`. Errors: kOutOfOrder, kBusy.
  CacheResult<void> commit(StepId step, bool retire = true) { return detail::commit_step(core_, step, retire); }

  /// The oldest committed step names no block any more: its pending blocks become clean or cached. Errors: kOutOfOrder, kBusy.
  CacheResult<void> retire(StepId step) { return detail::retire_step(core_, step); }

  /// Takes the newest sealed step back: references, tables and counts as before; reused cached blocks stay un-indexed. Bytes do not come
  /// back: a sequence becomes content_lost when this step, or a later one that was aborted, reused a block of it, or wrote in place (grow,
  /// make_writable) where it has tokens: its own, or those of a fork whose block became the writer's alone. New tokens behind
  /// everybody's last one cost nobody anything. Returns how many sequences became so. Requires: the step does not run any more.
  /// Errors: kOutOfOrder, kBusy.
  CacheResult<std::int64_t> abort(StepId step) { return detail::abort_step(core_, step); }

  /// The id of a namespace, new or old. Errors: kBadNamespace, kNoNamespace.
  CacheResult<NamespaceId> intern(std::span<const NamespaceField> fields) requires Core::kIndexed {
    const auto id = core_.index.intern(fields);
    if (!id) return Unexpected{id.error()};
    return NamespaceId{*id};
  }

  /// The longest cached start of a prompt, compared token by token. Changes nothing. Cost: O(tokens).
  [[nodiscard]] PrefixHit match(const PrefixQuery& query) const requires Core::kIndexed {
    return core_.index.match(query, core_.epoch);
  }

  /// Makes the committed tokens of `seq` findable: each newly full block gets a node, or is swapped for the equal block that has one.
  /// Call it after commit with accepted tokens only: tokens of a sealed step, which may still be aborted, are refused (kBadLength).
  /// With partial_tail (when the sequence ends) the unfilled last block becomes a partial leaf. Blocks that do not fit the index stay
  /// private. Errors: kBusy, kDeadSeq, kBadLength.
  CacheResult<void> publish(SeqId seq, const PublishArgs& args) requires Core::kIndexed {
    return detail::publish_seq(core_, seq, args);
  }

  /// Keeps the full blocks of a hit, with their whole root path, until `unpin`, `expires_at_ns` (0 = never) or `yield_pins`.
  /// Errors: kPinLimit (half the pool, max_pins), kStaleHit, kBusy.
  CacheResult<PinId> pin(const PrefixHit& hit, std::uint8_t priority = kDefaultRetentionPriority, std::int64_t expires_at_ns = 0)
    requires Core::kIndexed
  {
    return detail::pin_hit(core_, hit, priority, expires_at_ns);
  }
  CacheResult<void> unpin(PinId pin) requires Core::kIndexed { return detail::unpin(core_, pin); }

  /// Ends pins, least priority first, until `num_blocks` are available; returns how many ended. Errors: kBusy.
  CacheResult<std::int64_t> yield_pins(std::int64_t num_blocks) requires Core::kIndexed {
    return detail::yield_pins(core_, num_blocks);
  }
  /// Ends pins and retention wishes up to `now_ns`. Errors: kBusy.
  CacheResult<void> expire(std::int64_t now_ns) requires Core::kIndexed { return detail::expire(core_, now_ns); }

  /// Forgets every cached prefix (new weights); OffloadTier::clear does so for a host tier.
  /// kIfIdle refuses while sequences, steps or pins live; kDetach makes running sequences
  /// private: they keep their blocks and publish no more. Hits from before are stale. Errors: kBusy{holders}.
  CacheResult<void> reset(CacheReset mode) requires Core::kIndexed {
    return detail::reset_index(core_, mode == CacheReset::kDetach);
  }

  [[nodiscard]] const Index& index() const noexcept { return core_.index; }
  [[nodiscard]] const BlockAllocatorConfig& config() const noexcept { return core_.config; }
  [[nodiscard]] CapacitySnapshot capacity() const noexcept { return core_.capacity(); }
  [[nodiscard]] bool alive(SeqId seq) const noexcept { return core_.rows.alive(seq); }
  [[nodiscard]] std::int64_t num_tokens(SeqId seq) const { return row(seq).num_tokens; }
  /// True when aborted steps may have overwritten tokens of `seq`: truncate it to 0 and compute it again.
  [[nodiscard]] bool content_lost(SeqId seq) const { return row(seq).content_lost; }

  /// The block table of a live sequence.
  [[nodiscard]] BlockTable table(SeqId seq, std::int64_t group = 0) const {
    const detail::SeqRow& r = row(seq);
    KVPAGE_ASSERT(group >= 0 && group < core_.config.num_groups, "the group exists");
    return {.blocks = {core_.rows.table(seq.slot, group), r.num_entries}, .num_tokens = r.num_tokens,
            .first_live = r.first_live[group]};
  }

  /// Copies of a step in flight. Requires: sealed and not retired.
  [[nodiscard]] std::span<const CopyOp> copies(StepId step) const {
    for (std::int64_t i = 0; i < core_.steps.size(); ++i) {
      if (core_.steps[i].id == step) return core_.lane_copies(core_.steps[i].lane).first(core_.steps[i].num_copies);
    }
    return {};
  }

  /// References to a block from tables, pins, copies and BlockRefs. Requires: a block of the pool.
  [[nodiscard]] std::int64_t ref_count(BlockId block) const {
    KVPAGE_ASSERT(static_cast<std::int64_t>(block.value) < core_.config.num_blocks, "the block lies in the pool");
    return core_.pool.record(block.value).ref;
  }

  [[nodiscard]] Events& events() noexcept { return core_.events; }
  [[nodiscard]] const Evict& policy() const noexcept { return core_.pool.policy(); }

  /// Recounts everything and asserts that it agrees. Cost: linear in the pool, tables and index.
  void check_invariants() const { detail::check_all(core_); }
  /// A value that differs when counts, tables, queue orders or the index differ. Generations do not count: they only move forward.
  [[nodiscard]] std::uint64_t digest() const { return detail::digest_all(core_); }

 private:
  BlockAllocator(AlignedBytes memory, const BlockAllocatorConfig& config, const IndexOptions& options, Evict& policy, Events& events)
      : BlockAllocator(config, memory.span(), options, std::move(policy), std::move(events)) {
    own_memory_ = std::move(memory);
  }

  /// Lays out a core without memory. `policy` comes back as it was, as attaching it anew says all.
  static std::size_t measure(const BlockAllocatorConfig& config, const IndexOptions& options, Evict& policy) {
    Core core{};
    detail::Arena arena;
    core.attach(arena, config.with_defaults(), options, std::move(policy));
    policy = std::move(core.pool.policy());
    return arena.used_bytes() + detail::Arena::kAlignment;
  }
  [[nodiscard]] const detail::SeqRow& row(SeqId seq) const {
    KVPAGE_ASSERT(core_.rows.alive(seq), "the sequence is alive");
    return core_.rows.row(seq.slot);
  }

  Core core_;
  AlignedBytes own_memory_;  // empty when the caller's is used
};

KVPAGE_END_NAMESPACE
