#include "tools/kvpage/blocks_page.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/trace.hpp"
#include "tools/kvpage/trace_io.hpp"

#include <cstdio>
#include <filesystem>

namespace kvpage::cli {

int trace_page(const TracePageOptions& options) {
  refuse_overwriting(options.output, options.file);
  auto reader = open_trace(options.file);
  const std::string title = std::filesystem::path(options.file).filename().string();
  const auto page = render_blocks_page(reader, title, options.steps_per_frame);
  if (!page) throw Failure(kExitLoad, page.error().message);
  warn_if_cut_short(reader, options.file);
  write_output(options.output, options.file, *page);
  std::printf("%s: %zu bytes\n", options.output.c_str(), page->size());
  return kExitOk;
}

}  // namespace kvpage::cli
