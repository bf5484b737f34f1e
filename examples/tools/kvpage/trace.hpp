/// \file What the verbs of `kvpage trace` were asked to do, and the verbs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvpage::cli {

struct TraceReplayOptions {
  std::string file;
  std::vector<std::int64_t> pool_blocks;  ///< empty = the recorded pool, or 2, 4 and 8 times the largest request and all
  std::int64_t block_size = 0;            ///< 0 = as recorded, else 16
  std::vector<std::string> policies;      ///< empty = all
  bool partial_hits = false;
  bool json = false;
};

struct TraceGenerateOptions {
  std::string kind;
  std::uint64_t seed = 1;
  std::int64_t num_requests = 600;
  std::string output;  ///< empty = standard output
};

struct TracePageOptions {
  std::string file;
  std::string output;
  std::int64_t steps_per_frame = 1;
};

struct TraceExportOptions {
  std::string file;
  std::string perfetto;  ///< the file to write
};

struct TraceSimulateOptions {
  std::uint64_t seed = 1;
  std::int64_t count = 1;
  std::string from;    ///< a kept run; empty = seeds
  std::string output;  ///< keeps the first run that fails, or the first one
};

struct TraceShrinkOptions {
  std::string file;
  std::string output;
};

int trace_replay(const TraceReplayOptions& options);
int trace_generate(const TraceGenerateOptions& options);
int trace_page(const TracePageOptions& options);
int trace_export(const TraceExportOptions& options);
int trace_simulate(const TraceSimulateOptions& options);
int trace_shrink(const TraceShrinkOptions& options);

}  // namespace kvpage::cli
