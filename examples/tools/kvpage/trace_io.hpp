/// \file Files that the verbs of `kvpage trace` read and write.
#pragma once

#include "engine/trace/trace_reader.hpp"

#include <functional>
#include <iosfwd>
#include <string>

namespace kvpage::cli {

/// Errors: Failure when the file is no trace.
engine::TraceReader open_trace(const std::string& path);
/// Says so on standard error if the trace ended in the middle of a line.
void warn_if_cut_short(const engine::TraceReader& reader, const std::string& path);

/// Creates a file. Errors: Failure when it would overwrite `input` (which may be empty), or cannot be written completely.
void write_output(const std::string& path, const std::string& input, const std::function<void(std::ostream&)>& write);
void write_output(const std::string& path, const std::string& input, const std::string& text);
/// Errors: Failure when both are the same file.
void refuse_overwriting(const std::string& path, const std::string& input);

}  // namespace kvpage::cli
