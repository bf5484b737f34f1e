/// \file Cache events: a typed record of every settled change, and the sinks that receive it.
#pragma once

#include <kvpage/cache/block_ids.hpp>

#include <concepts>

KVPAGE_BEGIN_NAMESPACE

/// What happened to a block, a sequence, a step or the index. From the events alone a reader can follow the references, the owners and
/// the state of every block: a block without references waits for the newest step that was in flight, then is cached if it is findable
/// (published, and neither evicted, hidden nor reset since), else clean.
enum class CacheEventKind : std::uint8_t {
  kAlloc,    ///< a block was taken for new content: its first reference
  kShare,    ///< an unreferenced or shared block got one more reference
  kUnshare,  ///< a block lost one of several references
  kFree,     ///< a block lost its last reference
  kCopy,     ///< block = destination, other = source, num_tokens = tokens copied; the sequence's reference to the source is the copy's now
  kSeqStart,
  kSeqEnd,
  kHit,      ///< a sequence started with num_tokens cached tokens
  kPublish,  ///< a block became findable
  kAdopt,    ///< a sequence gave up its duplicate `other` for `block`; both references were reported before
  kHide,     ///< a block cannot be found any more, but keeps its content: a sequence writes on in it, or it lost its ancestors
  kEvict,    ///< a block lost its content: reuse of a cached block
  kPin,
  kUnpin,
  kReset,
  kSeal,     ///< the events of `step` are complete; it is in flight now
  kCommit,   ///< the oldest sealed step has run
  kRetire,   ///< the oldest committed step names no block any more
  kAbort,    ///< the newest sealed step was taken back; the events that undo it follow
};

/// One event. Fields that do not apply hold their "none" value.
struct CacheEvent {
  CacheEventKind kind{};
  StepId step{};  ///< the sealed step it belongs to; 0 = a change outside of steps
  BlockId block = kNoBlock;
  BlockId other = kNoBlock;
  std::int64_t group = 0;
  std::uint64_t content_key = 0;  ///< of the index node, 0 = none
  std::int64_t num_tokens = 0;
  SeqId seq{};  ///< whose reference it is; none for pins, copies and references outside of tables
};

/// Receives events. `kEnabled == false` removes every trace of events from the compiled allocator.
template <class S>
concept EventSink = std::movable<S> && requires(S sink, const CacheEvent& event) {
  { S::kEnabled } -> std::convertible_to<bool>;
  sink.on_event(event);
};

/// No events, at no cost.
struct NoEvents {
  static constexpr bool kEnabled = false;
  void on_event(const CacheEvent&) noexcept {}
};
static_assert(EventSink<NoEvents>);

KVPAGE_END_NAMESPACE
