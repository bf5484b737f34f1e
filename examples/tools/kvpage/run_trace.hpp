/// \file The trace of a run of requests: a file that is created before the model is loaded, and what is recorded into it.
#pragma once

#include "tools/kvpage/cli_engine.hpp"
#include "tools/kvpage/options.hpp"

#include <fstream>
#include <memory>
#include <optional>
#include <string>

namespace kvpage::cli {

/// The empty file of the trace, if one is wanted. Errors: Failure when it cannot be created, or is a file that is read.
std::unique_ptr<std::ofstream> create_trace(const BenchOptions& options);

/// Records what `engine` does, by the clock of `env`, as long as this lives. Requires: both outlive it.
class RunTrace {
 public:
  /// `file` as create_trace made it; null: nothing is recorded.
  RunTrace(std::unique_ptr<std::ofstream> file, const std::optional<std::string>& path, CliEngine& engine,
            engine::SystemEnv& env);
  ~RunTrace() { engine_.record_into(nullptr); }
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;

  /// Writes what is left. Errors: Failure when something could not be written.
  void close();

 private:
  CliEngine& engine_;
  std::unique_ptr<engine::TraceRecorder> recorder_;
};

}  // namespace kvpage::cli
