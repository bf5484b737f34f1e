/// \file Cache events: a typed record of every settled change, and the sinks that receive it.
#pragma once

#include <kvpage/cache/block_ids.hpp>

#include <concepts>

KVPAGE_BEGIN_NAMESPACE

/// What happened to a block, a sequence or the index.
enum class CacheEventKind : std::uint8_t {
  kAlloc,    ///< a block was taken for new content
  kShare,    ///< an unreferenced or shared block got one more reference
  kFree,     ///< a block lost its last reference
  kCopy,     ///< block = destination, other = source, num_tokens = tokens copied
  kSeqStart,
  kSeqEnd,
  kHit,      ///< a sequence started with num_tokens cached tokens
  kPublish,  ///< a block became findable
  kAdopt,    ///< a sequence gave up its duplicate `other` for `block`
  kEvict,    ///< a block lost its content: reuse of a cached block
  kPin,
  kUnpin,
  kReset,
  kAbort,    ///< a sealed step was taken back: its events did not happen
};

/// One event. Fields that do not apply hold their "none" value.
struct CacheEvent {
  CacheEventKind kind{};
  StepId step{};
  BlockId block = kNoBlock;
  BlockId other = kNoBlock;
  std::int64_t group = 0;
  std::uint64_t content_key = 0;  ///< of the index node, 0 = none
  std::int64_t num_tokens = 0;
  SeqId seq{};
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
