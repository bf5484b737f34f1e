#include "tools/kvpage/progress_bar.hpp"

#include "tools/kvpage/rates.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace kvpage::cli {
namespace {

constexpr double kMinStageSeconds = 0.5;  // a stage shorter than this needs no bar
constexpr int kBarCells = 30;

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text{value};
    return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos;
  }
  return false;
}

std::string amount(double value, std::string_view unit) {
  const char* prefix = "";
  for (const char* larger : {"k", "M", "G", "T"}) {
    if (value < 10'000) break;
    value /= 1000, prefix = larger;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %s", value, prefix);
  return text + std::string(unit);
}

}  // namespace

ProgressBar::ProgressBar(const std::string& mode) : plain_ascii_(!locale_is_utf8() || std::getenv("NO_COLOR") != nullptr) {
  if (mode == "json") mode_ = Mode::kJson;
  else if (mode == "none") mode_ = Mode::kNone;
  else mode_ = isatty(STDERR_FILENO) != 0 ? Mode::kBar : Mode::kLines;
}

bool ProgressBar::begin_report(std::string_view stage, bool last) {
  if (mode_ == Mode::kNone) return false;
  const auto now = Clock::now();
  if (stage != stage_) {
    stage_ = stage;
    stage_start_ = now;
  }
  if (!last && now - last_ < std::chrono::milliseconds(100)) return false;
  last_ = now;
  return true;
}

void ProgressBar::show(const RunStatus& run) {
  if (!begin_report("requests", run.num_finished >= run.num_requests)) return;
  const double seconds = std::chrono::duration<double>(last_ - std::max(last_run_, stage_start_)).count();
  const auto tokens_per_s = rate(run.output_tokens - last_tokens_, seconds);
  last_run_ = last_, last_tokens_ = run.output_tokens;
  const auto n = [](std::int64_t count) { return static_cast<long long>(count); };
  if (mode_ == Mode::kJson) {
    const double t_ms = std::chrono::duration<double, std::milli>(last_ - start_).count();
    std::fprintf(stderr,
                 "{\"stage\":\"requests\",\"done\":%lld,\"total\":%lld,\"unit\":\"requests\",\"running\":%lld,\"waiting\":%lld,"
                 "\"output_tokens\":%lld,\"tokens_per_s\":%s,\"pool_share\":%.3f,\"t_ms\":%.0f}\n",
                 n(run.num_finished), n(run.num_requests), n(run.num_running), n(run.num_waiting), n(run.output_tokens),
                 tokens_per_s ? figure_text("%.1f", 0, tokens_per_s).c_str() : "null", run.pool_share, t_ms);
  } else if (mode_ == Mode::kBar) {
    std::fprintf(stderr, "\r%lld running, %lld waiting, %s tok/s, pool %.0f %%, %lld/%lld finished \033[K", n(run.num_running),
                 n(run.num_waiting), figure_text("%.0f", 0, tokens_per_s).c_str(), run.pool_share * 100, n(run.num_finished),
                 n(run.num_requests));
    std::fflush(stderr);
    drawn_ = true;
    if (run.num_finished >= run.num_requests) clear();
  }
}

void ProgressBar::show(std::string_view stage, std::int64_t done, std::int64_t total, std::string_view unit) {
  const bool last = done >= total;
  if (!begin_report(stage, last)) return;
  const auto now = last_;
  const double stage_s = std::chrono::duration<double>(now - stage_start_).count();
  if (mode_ == Mode::kJson) {
    const double t_ms = std::chrono::duration<double, std::milli>(now - start_).count();
    std::fprintf(stderr, "{\"stage\":\"%s\",\"done\":%lld,\"total\":%lld,\"unit\":\"%s\",\"t_ms\":%.0f}\n", stage_.c_str(),
                 static_cast<long long>(done), static_cast<long long>(total), std::string(unit).c_str(), t_ms);
  } else if (mode_ == Mode::kBar && stage_s >= kMinStageSeconds) {
    draw(done, total, unit, stage_s);
    if (last) clear();
  } else if (mode_ == Mode::kLines && last && stage_s >= 2.0) {
    std::fprintf(stderr, "%s: %s in %.1f s\n", stage_.c_str(), amount(static_cast<double>(total), unit).c_str(), stage_s);
  }
}

void ProgressBar::draw(std::int64_t done, std::int64_t total, std::string_view unit, double stage_s) {
  const double share = total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 1.0;
  const int full = static_cast<int>(share * kBarCells);
  std::string bar;
  for (int i = 0; i < kBarCells; ++i) bar += i < full ? (plain_ascii_ ? "#" : "\u2588") : (plain_ascii_ ? "-" : "\u2591");
  std::string rest;
  if (const auto per_s = rate(done, stage_s); per_s && *per_s > 0) {
    char left[48];
    std::snprintf(left, sizeof left, "/s  %.0f s left", static_cast<double>(total - done) / *per_s);
    rest = amount(*per_s, unit) + left;
  }
  std::fprintf(stderr, "\r%-10s %s %3.0f %%  %s \033[K", stage_.c_str(), bar.c_str(), share * 100, rest.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace kvpage::cli
