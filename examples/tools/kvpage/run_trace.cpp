#include "tools/kvpage/run_trace.hpp"

#include "tools/kvpage/failure.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace kvpage::cli {

std::unique_ptr<std::ofstream> create_trace(const BenchOptions& options) {
  if (!options.trace) return nullptr;
  std::vector<std::string> inputs{options.model.model};
  if (options.requests) inputs.push_back(*options.requests);
  for (const std::string& input : inputs) {
    std::error_code none;  // a file that is not there yet is no other
    if (!std::filesystem::equivalent(*options.trace, input, none)) continue;
    throw Failure(kExitUsage, "the trace would overwrite " + input + ", which is read; give --trace another file");
  }
  auto file = std::make_unique<std::ofstream>(*options.trace, std::ios::binary);
  if (!*file) throw Failure(kExitRun, "cannot create the trace " + *options.trace + ": " + std::strerror(errno));
  return file;
}

RunTrace::RunTrace(std::unique_ptr<std::ofstream> file, const std::optional<std::string>& path, CliEngine& engine,
                     engine::SystemEnv& env)
    : engine_(engine) {
  if (!file) return;
  recorder_ = std::make_unique<engine::TraceRecorder>(std::move(file), *path, engine.cache().trace_header(),
                                                      [&env] { return env.now_ns(); });
  engine_.record_into(recorder_.get());
}

void RunTrace::close() {
  if (!recorder_) return;
  if (const auto written = recorder_->flush(); !written) throw Failure(kExitRun, written.error().message);
}

}  // namespace kvpage::cli
