/// \file Progress: how far a long operation is, and notes on the way, told to whoever wants to show them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace kvpage::engine {

/// One report. `done_bytes` never falls within a stage; the last report of a stage has done_bytes == total_bytes.
struct Progress {
  std::string_view stage;  ///< a verb with static storage, such as "loading"
  std::int64_t done_bytes;
  std::int64_t total_bytes;
};

/// Receives reports on the thread that does the work; empty = nobody listens.
using ProgressCallback = std::function<void(const Progress&)>;

/// Receives a sentence about something that did not go as wished and does not matter for results; empty = nobody listens.
using NoteCallback = std::function<void(std::string_view)>;

}  // namespace kvpage::engine
