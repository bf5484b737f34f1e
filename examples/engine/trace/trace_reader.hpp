/// \file TraceReader: the lines of a recorded trace, one after another, checked.
#pragma once

#include "engine/trace/trace_lines.hpp"
#include "engine/trace/trace_recorder.hpp"

#include <kvpage/base/expected.hpp>
#include <kvpage/cache/cache_events.hpp>
#include <kvpage/cache/capacity_snapshot.hpp>

#include <nlohmann/json.hpp>

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace kvpage::engine {

/// One line behind the header. `fields` is the whole JSON object.
struct TraceLine {
  std::int64_t number = 0;  ///< in the file, from 1
  std::string kind;
  nlohmann::json fields;
};

/// Reads a trace line by line, so that its length does not matter. A last line that was cut short (a killed process) ends the trace;
/// everything else that is wrong is an error that names the file, the line and the field.
class TraceReader {
 public:
  static Expected<TraceReader, TraceError> open(const std::string& path);
  /// Reads from any stream; `name` stands for the path in messages.
  static Expected<TraceReader, TraceError> read(std::unique_ptr<std::istream> in, std::string name);

  [[nodiscard]] const TraceHeader& header() const noexcept { return header_; }
  /// The next line; false at the end.
  Expected<bool, TraceError> next(TraceLine& line);
  /// True once the end was reached in the middle of a line.
  [[nodiscard]] bool cut_short() const noexcept { return cut_short_; }

  /// When the line was written; 0 = it does not say.
  [[nodiscard]] Expected<std::int64_t, TraceError> time_ns(const TraceLine& line) const;
  /// What the lines of a kind say.
  [[nodiscard]] Expected<TraceRequest, TraceError> request(const TraceLine& line) const;
  [[nodiscard]] Expected<TraceFinish, TraceError> finish(const TraceLine& line) const;
  [[nodiscard]] Expected<TracePlan, TraceError> plan(const TraceLine& line) const;
  [[nodiscard]] Expected<TracePreemption, TraceError> preemption(const TraceLine& line) const;
  [[nodiscard]] Expected<TraceTransfer, TraceError> transfer(const TraceLine& line) const;
  /// Without `pinned` and `epoch`, which traces do not hold.
  [[nodiscard]] Expected<CapacitySnapshot, TraceError> capacity(const TraceLine& line) const;
  /// All cache events of a line; empty when its kind is none of theirs. Block ids lie in the header's pool.
  [[nodiscard]] Expected<std::vector<CacheEvent>, TraceError> events(const TraceLine& line) const;
  [[nodiscard]] TraceError error(const TraceLine& line, const std::string& what) const;

 private:
  TraceReader(std::unique_ptr<std::istream> in, std::string name);
  Expected<void, TraceError> read_header();

  std::unique_ptr<std::istream> in_;
  std::string name_;
  TraceHeader header_;
  std::int64_t line_number_ = 0;
  bool cut_short_ = false;
};

}  // namespace kvpage::engine
