/// \file Records which functions run between start() and stop(), in programs built with -finstrument-functions.
#pragma once

#include <cstdint>
#include <string>

namespace kvpage_test::trace {

/// Starts recording; what was recorded before is dropped. Threads: records the calls of every thread in one order.
void start();

/// Stops and writes one line per call to `path`: the function's address in the program file, in hex, in call order;
/// repetitions of the same call in a row are written once. Returns the number of calls. Ends the program when a call was lost.
std::int64_t stop(const std::string& path);

}  // namespace kvpage_test::trace
