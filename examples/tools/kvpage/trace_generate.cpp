#include "engine/trace/trace_generator.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/trace.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

namespace kvpage::cli {

int trace_generate(const TraceGenerateOptions& options) {
  std::unique_ptr<std::ostream> out;
  if (options.output.empty()) {
    out = std::make_unique<std::ostream>(std::cout.rdbuf());
  } else {
    out = std::make_unique<std::ofstream>(options.output, std::ios::binary);
    if (!*out) throw Failure(kExitRun, "cannot create the trace " + options.output + ": " + std::strerror(errno));
  }
  const std::string name = options.output.empty() ? "on standard output" : options.output;
  const auto written = engine::write_requests(std::move(out), name, options.kind,
                                              {.seed = options.seed, .num_requests = options.num_requests});
  if (!written) throw Failure(kExitRun, written.error().message);
  return kExitOk;
}

}  // namespace kvpage::cli
