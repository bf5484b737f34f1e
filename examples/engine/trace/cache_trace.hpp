/// \file CacheTrace: the allocator's events on their way into a recorded trace.
#pragma once

#include "engine/trace/trace_recorder.hpp"

namespace kvpage::engine {

/// An EventSink that hands events to a recorder, if there is one: `BlockAllocator<PrefixIndex<>, Lru, CacheTrace>`. Without a recorder
/// an event costs one branch. Give it the recorder at construction or later: `allocator.events().record_into(recorder)`.
class CacheTrace {
 public:
  static constexpr bool kEnabled = true;

  CacheTrace() = default;
  /// Requires: the recorder outlives the allocator, or `record_into(nullptr)` comes first.
  explicit CacheTrace(TraceRecorder* recorder) noexcept : recorder_(recorder) {}

  void record_into(TraceRecorder* recorder) noexcept { recorder_ = recorder; }
  void on_event(const CacheEvent& event) {
    if (recorder_ != nullptr) recorder_->event(event);
  }

 private:
  TraceRecorder* recorder_ = nullptr;
};
static_assert(EventSink<CacheTrace>);

}  // namespace kvpage::engine
