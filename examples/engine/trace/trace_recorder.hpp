/// \file TraceRecorder: writes what an engine and its block allocator do as JSON lines.
#pragma once

#include "engine/trace/trace_lines.hpp"

#include <kvpage/base/expected.hpp>
#include <kvpage/cache/cache_events.hpp>
#include <kvpage/cache/capacity_snapshot.hpp>

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvpage::engine {

/// Why a trace cannot be written or read.
struct TraceError {
  std::string message;
};

/// Nanoseconds since any fixed moment; the recorder has no clock of its own.
using TraceClock = std::function<std::int64_t()>;

/// Lines are written whole: whenever a request ends, and when many are buffered. So the trace of a killed process is readable up to
/// where it ends, and has every request that was answered.
/// Threads: the one that owns the allocator. Cost: some 20 bytes per event.
class TraceRecorder {
 public:
  /// Creates `path` and writes the header. Errors: a file that cannot be created.
  static Expected<std::unique_ptr<TraceRecorder>, TraceError> open(const std::string& path, const TraceHeader& header, TraceClock now_ns);
  /// Records into any stream.
  TraceRecorder(std::unique_ptr<std::ostream> out, std::string name, const TraceHeader& header, TraceClock now_ns);
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;
  ~TraceRecorder();

  void submit(const TraceRequest& request);
  /// What a step computes: the one that is sealed next, or `step` once it is sealed. When steps are sealed, committed and aborted is
  /// known from the allocator's events.
  void plan(std::span<const PlannedRow> rows, std::optional<StepId> step = {});
  void preempt(const TracePreemption& preemption);
  void transfer(const TraceTransfer& transfer);
  /// The end of an answer. Writes out what is buffered.
  void finish(const TraceFinish& end);
  /// The allocator's own count, so that readers can check theirs. Writes out what is buffered.
  void capacity(const CapacitySnapshot& snapshot);
  /// Comes from the middle of the allocator's work: without memory for the line, the trace has failed and nothing else.
  void event(const CacheEvent& event) noexcept;
  /// What the caller wanted to write is missing: flush says so.
  void fail() noexcept { failed_ = true; }

  /// The newest sealed step.
  [[nodiscard]] StepId step() const noexcept { return step_; }
  /// Writes out what is buffered. Errors: anything that could not be written since the start, such as a full disk.
  [[nodiscard]] Expected<void, TraceError> flush();

 private:
  void begin_line(std::string_view kind);
  void write_event(const CacheEvent& event);
  void append_answer(std::string_view id, std::uint32_t answer);
  void end_line();
  void end_events();
  void write_out();

  std::unique_ptr<std::ostream> out_;
  std::string name_;
  TraceClock now_ns_;
  std::string buffer_;
  StepId step_{};
  StepId events_step_{};  ///< of the event line that is being written
  int num_events_ = 0;    ///< in it; 0 = none is being written
  bool failed_ = false;
};

}  // namespace kvpage::engine
