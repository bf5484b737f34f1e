#include "tools/kvpage/trace_io.hpp"

#include "tools/kvpage/failure.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace kvpage::cli {

engine::TraceReader open_trace(const std::string& path) {
  auto reader = engine::TraceReader::open(path);
  if (!reader) throw Failure(kExitLoad, reader.error().message);
  return std::move(*reader);
}

void warn_if_cut_short(const engine::TraceReader& reader, const std::string& path) {
  if (reader.cut_short()) std::fprintf(stderr, "kvpage: %s ends in the middle of a line; that line is left out\n", path.c_str());
}

void refuse_overwriting(const std::string& path, const std::string& input) {
  std::error_code unknown;  // a file that is not there equals none
  if (input.empty() || !std::filesystem::equivalent(path, input, unknown)) return;
  throw Failure(kExitUsage, path + " would overwrite its trace " + input + "; name another file");
}

void write_output(const std::string& path, const std::string& input, const std::function<void(std::ostream&)>& write) {
  refuse_overwriting(path, input);
  std::ofstream out(path, std::ios::binary);
  if (out) write(out);
  if (!out.flush()) throw Failure(kExitRun, "cannot write " + path + ": " + std::strerror(errno));
}

void write_output(const std::string& path, const std::string& input, const std::string& text) {
  write_output(path, input, [&](std::ostream& out) { out << text; });
}

}  // namespace kvpage::cli
