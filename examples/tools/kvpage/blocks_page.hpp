/// \file The block map of a recorded run as one HTML page.
#pragma once

#include "engine/trace/trace_reader.hpp"

#include <string>

namespace kvpage::cli {

/// Longest run that a page shows: positions of its slider.
inline constexpr std::int64_t kMaxPageFrames = 1'000'000;

/// Reads the trace to its end and returns the page, which refers to nothing outside itself. Each position of its slider stands for
/// `steps_per_frame` steps. Errors: the reader's, events that contradict each other or the recorded capacity, a trace without events.
Expected<std::string, engine::TraceError> render_blocks_page(engine::TraceReader& reader, const std::string& title,
                                                             std::int64_t steps_per_frame);

}  // namespace kvpage::cli
