/// \file CacheRefusal: why a cache operation changed nothing, with the two numbers that decided.
#pragma once

#include <kvpage/base/expected.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// The rule that a refused operation met.
enum class CacheRefusalKind : std::uint8_t {
  kNoBlocks,     ///< need = blocks asked for, available = clean + cached blocks
  kNoSeqSlot,    ///< need = live sequences with this one, available = max_seqs
  kTableFull,    ///< need = blocks in one table, available = max_blocks_per_seq
  kDeadSeq,      ///< the SeqId names no live sequence; need = its slot
  kBadLength,    ///< need = the length asked for, available = the length of the sequence
  kStaleHit,     ///< the hit names blocks that were reused since: match again
  kNotEmpty,     ///< share needs a sequence without tokens; need = 0, available = its tokens
  kNotHeld,      ///< a raw free of more references than were handed out; need = asked, available = held
  kBusy,         ///< need = 0, available = holders: open transactions, steps in flight, or live references
  kOutOfOrder,   ///< the step is not the one whose turn it is; need = its id, available = the id whose turn it is
  kNeedsSeal,    ///< the transaction recorded work for a launch (copies) or claims behind a sealed step: seal it
  kLogFull,      ///< need = undo entries, available = free ones: seal or commit earlier, or raise max_log_entries
  kCopiesFull,   ///< need = copies of this step, available = max_copies
  kPinLimit,     ///< need = pinned blocks asked for, available = the limit
  kBadNamespace, ///< need = fields or bytes given, or an id never interned; available = the limit
  kNoNamespace,  ///< need = namespaces with this one, available = max_namespaces
};

/// Why an operation changed nothing: the rule, and what was needed against what there was.
struct CacheRefusal {
  CacheRefusalKind kind{};
  std::int64_t need = 0;
  std::int64_t available = 0;
  friend constexpr bool operator==(const CacheRefusal&, const CacheRefusal&) = default;
};

/// One sentence for people; static storage.
[[nodiscard]] constexpr const char* describe(CacheRefusalKind kind) noexcept {
  switch (kind) {
    case CacheRefusalKind::kNoBlocks: return "not enough free blocks in the pool";
    case CacheRefusalKind::kNoSeqSlot: return "every sequence slot is taken (max_seqs)";
    case CacheRefusalKind::kTableFull: return "the sequence would need more blocks than its table holds (max_blocks_per_seq)";
    case CacheRefusalKind::kDeadSeq: return "the sequence id names no live sequence";
    case CacheRefusalKind::kBadLength: return "the length is not within the sequence";
    case CacheRefusalKind::kStaleHit: return "the prefix hit is stale: match again";
    case CacheRefusalKind::kNotEmpty: return "a prefix hit can only be shared into an empty sequence";
    case CacheRefusalKind::kNotHeld: return "a block was freed more often than it was handed out";
    case CacheRefusalKind::kBusy: return "the cache is busy: finish the open transaction or the steps in flight first";
    case CacheRefusalKind::kOutOfOrder: return "steps commit oldest first, abort newest first, retire oldest first";
    case CacheRefusalKind::kNeedsSeal: return "the transaction must be sealed and launched, not committed directly";
    case CacheRefusalKind::kLogFull: return "the undo log is full: commit earlier or raise max_log_entries";
    case CacheRefusalKind::kCopiesFull: return "the step has too many copies (max_copies)";
    case CacheRefusalKind::kPinLimit: return "more blocks would be pinned than the pin limit allows";
    case CacheRefusalKind::kBadNamespace: return "the namespace is unknown, differs from the hit's, or has more than 8 fields of 256 bytes";
    case CacheRefusalKind::kNoNamespace: return "every namespace slot is taken (max_namespaces)";
  }
  return "unknown refusal";
}

/// Result of every cache operation that can be refused.
template <class T>
using CacheResult = Expected<T, CacheRefusal>;

namespace detail {
constexpr Unexpected<CacheRefusal> refuse(CacheRefusalKind kind, std::int64_t need, std::int64_t available) noexcept {
  return {CacheRefusal{kind, need, available}};
}
}  // namespace detail

KVPAGE_END_NAMESPACE
