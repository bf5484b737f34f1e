#include "tools/kvpage/blocks_page.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/trace.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace kvpage::cli {

int trace_page(const TracePageOptions& options) {
  std::error_code unknown;  // a file that is not there equals none
  if (std::filesystem::equivalent(options.file, options.output, unknown)) {
    throw Failure(kExitUsage, "the page would overwrite its trace " + options.file + "; name another file with -o");
  }
  auto reader = engine::TraceReader::open(options.file);
  if (!reader) throw Failure(kExitLoad, reader.error().message);
  const std::string title = std::filesystem::path(options.file).filename().string();
  const auto page = render_blocks_page(*reader, title, options.steps_per_frame);
  if (!page) throw Failure(kExitLoad, page.error().message);
  if (reader->cut_short()) std::fprintf(stderr, "kvpage: %s ends in the middle of a line; that line is left out\n", options.file.c_str());
  std::ofstream out(options.output, std::ios::binary);
  out.write(page->data(), static_cast<std::streamsize>(page->size()));
  if (!out.flush()) throw Failure(kExitRun, "cannot write " + options.output + ": " + std::strerror(errno));
  std::printf("%s: %zu bytes\n", options.output.c_str(), page->size());
  return kExitOk;
}

}  // namespace kvpage::cli
