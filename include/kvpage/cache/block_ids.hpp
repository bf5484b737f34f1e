/// \file Ids of the cache: sequences with generations, steps, namespaces, and BlockRef, the move-only hold on one block.
#pragma once

#include <kvpage/base/types.hpp>

#include <utility>

KVPAGE_BEGIN_NAMESPACE

/// A live sequence: its row in the block tables, and a generation that makes ids of ended sequences detectable.
struct SeqId {
  std::uint32_t slot = 0xFFFF'FFFFu;  ///< stable row while the sequence lives, in [0, max_seqs)
  std::uint32_t generation = 0;
  friend constexpr auto operator<=>(const SeqId&, const SeqId&) = default;
};

/// A sealed transaction: the plan of one launched step. Ids only grow; none is given twice.
using StepId = StrongId<struct StepIdTag, std::uint64_t>;

/// An interned prefix namespace (model, salt, adapter, user ...), see PrefixIndex.
using NamespaceId = StrongId<struct NamespaceIdTag>;

/// A hold on a prefix, see BlockAllocator::pin.
struct PinId {
  std::uint32_t slot = 0xFFFF'FFFFu;
  std::uint32_t generation = 0;
  friend constexpr auto operator<=>(const PinId&, const PinId&) = default;
};

/// A state of the open transaction to which it can be rolled back.
struct Savepoint {
  std::uint64_t transaction = 0;  ///< which transaction set it
  std::uint64_t position = 0;     ///< length of the undo log at that moment
};

/// One reference to one block, outside of any table. It never copies: a free must move it, and one of what was moved is refused (kNotHeld).
/// Dropping a BlockRef without giving it back keeps the block in use: the allocator, not the destructor, owns the count.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(BlockId id, std::uint32_t generation) noexcept : id_(id), generation_(generation) {}
  BlockRef(const BlockRef&) = delete;
  BlockRef& operator=(const BlockRef&) = delete;
  BlockRef(BlockRef&& other) noexcept
      : id_(std::exchange(other.id_, kNoBlock)), generation_(std::exchange(other.generation_, 0)) {}
  BlockRef& operator=(BlockRef&& other) noexcept {
    id_ = std::exchange(other.id_, kNoBlock);
    generation_ = std::exchange(other.generation_, 0);
    return *this;
  }

  /// kNoBlock when empty (default-constructed, moved from).
  [[nodiscard]] BlockId id() const noexcept { return id_; }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }

 private:
  BlockId id_ = kNoBlock;
  std::uint32_t generation_ = 0;
};

KVPAGE_END_NAMESPACE
