/// \file ProgressBar: progress of long work on standard error: a bar on a terminal, one line per stage elsewhere, or JSON.
#pragma once

#include "engine/loader/progress.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace kvpage::cli {

/// Where a run of requests stands.
struct RunStatus {
  std::int64_t num_running = 0;   ///< sequences with a row
  std::int64_t num_waiting = 0;
  std::int64_t num_finished = 0;  ///< requests, refused ones among them
  std::int64_t num_requests = 0;  ///< of the whole run
  std::int64_t output_tokens = 0; ///< so far
  double pool_share = 0;          ///< blocks in use
};

/// Shows reports at most ten times a second. Threads: one at a time.
class ProgressBar {
 public:
  /// `mode`: auto (a bar if standard error is a terminal, else silent unless a stage takes long), none, or json.
  explicit ProgressBar(const std::string& mode);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Work measured in bytes.
  void show(const engine::Progress& report) { show(report.stage, report.done_bytes, report.total_bytes, "B"); }
  /// Work measured in anything else.
  void show(std::string_view stage, std::int64_t done, std::int64_t total, std::string_view unit);
  /// A run of requests: one line on a terminal, nothing elsewhere.
  void show(const RunStatus& run);
  /// Takes the bar off the terminal.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  /// False when nothing is to be shown now.
  bool begin_report(std::string_view stage, bool last);
  void draw(std::int64_t done, std::int64_t total, std::string_view unit, double stage_s);

  enum class Mode : std::uint8_t { kNone, kBar, kLines, kJson } mode_;
  bool plain_ascii_;
  bool drawn_ = false;
  std::string stage_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point stage_start_ = start_;
  Clock::time_point last_ = start_ - std::chrono::hours(1);
  std::int64_t last_tokens_ = 0;       // of the run shown last,
  Clock::time_point last_run_ = start_;  // and when
};

}  // namespace kvpage::cli
