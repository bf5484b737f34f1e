/// \file write_perfetto: a recorded run as a file that ui.perfetto.dev and chrome://tracing open.
#pragma once

#include "engine/trace/recorded_run.hpp"

#include <iosfwd>

namespace kvpage::engine {

/// Writes a run as JSON trace events: the process "engine" with a slice per step, counters of its blocks (used, pending, cached, free),
/// sequences and rows, and instants for evictions, copies and transfers; the process "requests" with a track per answer: a slice per
/// wait, prompt chunk and stretch of decode steps, instants for preemptions and the end. Times are microseconds since the first line,
/// with three decimals. Evictions and copies are told once per step, with their number. A stream that fails is the caller's to notice.
/// Source: "Trace Event Format", Google, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
/// (the JSON object format; phases X, C, i and M).
void write_perfetto(const RecordedRun& run, std::ostream& out);

}  // namespace kvpage::engine
