/// \file RecordedRun: everything that a trace says of steps, answers and blocks over time, in memory.
#pragma once

#include "engine/trace/block_map.hpp"
#include "engine/trace/run_timeline.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace kvpage::engine {

/// What the pool held from a moment on.
struct BlockCounts {
  std::int64_t t_ns = 0;
  std::array<std::int64_t, 4> by_state{};  ///< by MappedState
  [[nodiscard]] std::int64_t of(MappedState state) const noexcept { return by_state[static_cast<std::size_t>(state)]; }
};

/// What happened to blocks up to a moment, since the one before.
struct BlockChanges {
  std::int64_t t_ns = 0;
  std::int64_t evicted = 0;
  std::int64_t copies = 0;
  std::int64_t copied_tokens = 0;
};

struct RecordedRun {
  RunTimeline timeline{};
  std::vector<BlockCounts> block_counts{};    ///< where they changed, at most twice per step
  std::vector<BlockChanges> block_changes{};  ///< where there are any

  /// Reads a trace to its end. Errors: the reader's, what the trace contradicts, a trace without steps.
  static Expected<RecordedRun, TraceError> read(TraceReader& reader);
};

}  // namespace kvpage::engine
