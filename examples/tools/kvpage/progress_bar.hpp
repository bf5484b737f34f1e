/// \file ProgressBar: progress of long work on standard error: a bar on a terminal, one line per stage elsewhere, or JSON.
#pragma once

#include "engine/loader/progress.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace kvpage::cli {

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
  /// Takes the bar off the terminal.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::int64_t done, std::int64_t total, std::string_view unit, double stage_s);

  enum class Mode : std::uint8_t { kNone, kBar, kLines, kJson } mode_;
  bool plain_ascii_;
  bool drawn_ = false;
  std::string stage_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point stage_start_ = start_;
  Clock::time_point last_ = start_ - std::chrono::hours(1);
};

}  // namespace kvpage::cli
