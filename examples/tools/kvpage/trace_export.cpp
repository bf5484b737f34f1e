#include "engine/trace/perfetto_export.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/trace.hpp"
#include "tools/kvpage/trace_io.hpp"

#include <cstdio>
#include <filesystem>

namespace kvpage::cli {

int trace_export(const TraceExportOptions& options) {
  refuse_overwriting(options.perfetto, options.file);
  auto reader = open_trace(options.file);
  const auto run = engine::RecordedRun::read(reader);
  if (!run) throw Failure(kExitLoad, run.error().message);
  warn_if_cut_short(reader, options.file);
  write_output(options.perfetto, options.file, [&](std::ostream& out) { engine::write_perfetto(*run, out); });
  std::printf("%s: %zu steps, %zu answers, %ju bytes; open it at ui.perfetto.dev or chrome://tracing\n", options.perfetto.c_str(),
              run->timeline.steps().size(), run->timeline.tracks().size(),
              static_cast<std::uintmax_t>(std::filesystem::file_size(options.perfetto)));
  return kExitOk;
}

}  // namespace kvpage::cli
