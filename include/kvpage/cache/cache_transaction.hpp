/// \file CacheTransaction: the open transaction of a BlockAllocator; every change goes through one, and an unfinished one never happened.
#pragma once

#include <kvpage/cache/cache_victim.hpp>
#include <kvpage/cache/detail/share_ops.hpp>
#include <kvpage/cache/detail/step_ops.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Changes to a BlockAllocator that happen together or not at all. Get one from BlockAllocator::begin.
///
/// Each operation either does all it says or refuses and changes nothing. Dropping an open transaction takes everything back
/// exactly, queue orders included. A handle that was sealed, committed, aborted or moved from is empty.
/// Requires: the allocator outlives it; operations are called only while it is open.
/// Threads: the one thread that owns the allocator. Cost: O(blocks concerned), no allocation.
template <class Core>
class CacheTransaction {
 public:
  explicit CacheTransaction(Core& core) noexcept : core_(&core) {}
  CacheTransaction(CacheTransaction&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  CacheTransaction& operator=(CacheTransaction&& other) noexcept {
    if (this != &other) {
      abort();
      core_ = std::exchange(other.core_, nullptr);
    }
    return *this;
  }
  ~CacheTransaction() { abort(); }

  [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr; }

  /// A new sequence without tokens. Errors: kNoSeqSlot, kBadNamespace (not interned), kLogFull.
  CacheResult<SeqId> create(NamespaceId name_space = NamespaceId{}) { return detail::create_seq(core(), {name_space.value, false}); }

  /// Gives `seq` room for `num_tokens` tokens; never shrinks. An unfilled last block that only `seq` holds and no prefix hit can find takes
  /// new tokens as it is: a write in place. Any other needs make_writable. Errors: kNoBlocks, kTableFull, kDeadSeq, kBadLength, kLogFull.
  CacheResult<void> grow(SeqId seq, std::int64_t num_tokens) { return detail::grow_seq(core(), seq, num_tokens); }

  /// A new sequence that shares every block of `parent`, the partly filled one too. Errors: kNoSeqSlot, kDeadSeq, kLogFull.
  CacheResult<SeqId> fork(SeqId parent) { return detail::fork_seq(core(), parent); }

  /// Makes tokens [first_token, last_token) writable in place: blocks that others share, or that a prefix hit can find, are replaced,
  /// and copies() gets what must be copied. What a sealed step wrote in place stays when it is aborted, and BlockAllocator::abort says
  /// who lost tokens by it. Requires: no published block of the sequence lies behind the range.
  /// Errors: kNoBlocks, kCopiesFull, kDeadSeq, kBadLength, kLogFull.
  CacheResult<void> make_writable(SeqId seq, std::int64_t first_token, std::int64_t last_token) {
    return detail::make_writable(core(), seq, first_token, last_token);
  }

  /// Cuts `seq` to `num_tokens` (rejected drafts) and releases the blocks beyond. Errors: kBadLength, kDeadSeq, kLogFull.
  CacheResult<void> truncate(SeqId seq, std::int64_t num_tokens) { return detail::truncate_seq(core(), seq, num_tokens); }

  /// Ends `seq`. Errors: kDeadSeq, kLogFull.
  CacheResult<void> release(SeqId seq) { return detail::release_seq(core(), seq); }

  /// Releases the blocks of a window group that no query from position `next_token` on can see. Requires: next_token is the next
  /// *committed* position: drafts may be rejected. Errors: kDeadSeq, kBadLength, kLogFull.
  CacheResult<void> release_before(SeqId seq, std::int64_t group, std::int64_t next_token) {
    return detail::release_before(core(), seq, group, next_token);
  }

  /// Starts the empty sequence `seq` from a prefix hit: full blocks are shared; a part of one more is copied into a private block, or
  /// taken over when it is an unreferenced partial leaf. Errors: kStaleHit, kNotEmpty, kBadNamespace, kTableFull, kDeadSeq, kLogFull.
  CacheResult<SharedPrefix> share(SeqId seq, const PrefixHit& hit) requires Core::kIndexed {
    return detail::share_hit(core(), seq, hit);
  }

  /// One block outside of any table. Errors: kNoBlocks, kLogFull.
  [[gnu::always_inline]] CacheResult<BlockRef> allocate_block() { return detail::allocate_block(core()); }
  /// A second reference to the same block. Errors: kNotHeld, kLogFull.
  CacheResult<BlockRef> share_block(const BlockRef& ref) { return detail::share_block(core(), ref); }
  /// Gives a reference back; `ref` is empty afterwards, or unchanged when refused. Errors: kNotHeld, kLogFull.
  [[gnu::always_inline]] CacheResult<void> free_block(BlockRef&& ref) { return detail::free_block(core(), std::move(ref)); }
  /// Gives references of BlockRefs back by raw id, all or none; an id may occur as often as it is held, and what nobody holds changes
  /// nothing. A raw id has no generation: it means whoever holds the block now. Errors: kNotHeld, kLogFull.
  CacheResult<void> unref(std::span<const BlockId> ids) { return detail::unref_blocks(core(), ids); }

  /// Remembers this moment; `rollback_to` takes back what came after it, exactly.
  [[nodiscard]] Savepoint mark() const noexcept { return {core().transaction, core().log.end()}; }
  void rollback_to(Savepoint savepoint) {
    KVPAGE_ASSERT(savepoint.transaction == core().transaction && savepoint.position <= core().log.end() &&
                      savepoint.position >= core().log_begin(),
                  "a savepoint belongs to the open transaction and was not rolled back itself");
    detail::undo_to(core(), savepoint.position);
  }

  /// Copies that the step must do, in order, before its forward pass. Valid until the next operation.
  [[nodiscard]] std::span<const CopyOp> copies() const noexcept {
    return core().lane_copies(core().lane()).first(static_cast<std::size_t>(core().num_copies));
  }

  /// Calls fn(const CacheVictim&) for each cached block that this transaction took for new content, in order: the last chance to keep
  /// that content elsewhere. Requires: PrefixIndexOptions::portable_keys. Cost: linear in the transaction's changes.
  template <class Fn>
  void for_each_victim(Fn&& fn) const requires Core::kIndexed {
    detail::for_each_victim(core(), std::forward<Fn>(fn));
  }

  /// Ends planning: call it just before the launch. Errors: kBusy (two steps wait for commit already); the transaction stays open.
  CacheResult<StepId> seal() {
    auto step = detail::seal_open(core());
    if (step) core_ = nullptr;
    return step;
  }

  /// Makes the changes final without a launch. Errors: kNeedsSeal (copies were recorded, or blocks were taken while a step waits for
  /// commit); the transaction stays open.
  [[gnu::always_inline]] CacheResult<void> commit() {
    auto done = detail::commit_open(core());
    if (done) core_ = nullptr;
    return done;
  }

  /// Takes everything back, exactly. Does nothing on an empty handle.
  void abort() {
    if (core_ != nullptr) detail::abort_open(*std::exchange(core_, nullptr));
  }

 private:
  [[nodiscard]] Core& core() const {
    KVPAGE_ASSERT(core_ != nullptr, "operations are called on an open transaction");
    return *core_;
  }

  Core* core_;
};

KVPAGE_END_NAMESPACE
