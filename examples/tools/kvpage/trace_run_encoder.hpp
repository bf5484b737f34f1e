/// \file encode_run: the steps and answers of a recorded run as a compact stream of bytes, read by pages/run_log.js.
#pragma once

#include "engine/trace/run_timeline.hpp"

#include <string>

namespace kvpage::cli {

/// Numbers are LEB128, times microseconds since the first line, differences those to the element before.
/// Number of steps; per step: difference of ids, difference of begins, duration, rows, sequences, flags (1 = aborted, 2 = transfers),
/// with transfers blocks demoted and promoted. Number of answers; per answer: prompt, output and cached tokens, blocks promoted,
/// preemptions by kind (3), submission and end (+ 1; 0 = not known), number of sequences, their generations, number of spans; per span:
/// state, time since the end of the span before, duration, and if it computes: steps since the last one that did, steps, rows, position.
std::string encode_run(const engine::RunTimeline& run);

}  // namespace kvpage::cli
