#include "tools/kvpage/profile_report.hpp"

#include "tools/kvpage/rates.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

namespace kvpage::cli {
namespace {

/// One line of a report: an operation per step.
struct ProfileRow {
  const char* name;
  double launches, ms, bytes, code_macs, float_macs;
  double share_of_step;
  std::optional<double> share_of_ceiling;  ///< least time by the ceilings / time; above 1 = its data came from caches
};

ProfileRow profile_row(const engine::PhaseProfile& phase, std::size_t index, const engine::MachineCeilings& ceilings) {
  const engine::OperationProfile& operation = phase.operations[index];
  const auto per_step = [&](std::int64_t sum) { return static_cast<double>(sum) / static_cast<double>(phase.steps); };
  ProfileRow row{engine::kStepOperationNames[index], per_step(operation.launches), per_step(operation.time_ns) / 1e6,
                 per_step(operation.cost.bytes), per_step(operation.cost.code_macs), per_step(operation.cost.float_macs), 0, std::nullopt};
  const double compute_s = row.code_macs / ceilings.code_macs + row.float_macs / ceilings.float_macs;
  const double least_ms = 1e3 * std::max(row.bytes / ceilings.memory_bytes, compute_s);
  row.share_of_step = row.ms / (per_step(phase.total_ns) / 1e6);
  if (row.ms > 0 && row.bytes > 0) row.share_of_ceiling = least_ms / row.ms;
  return row;
}

std::vector<ProfileRow> profile_rows(const engine::PhaseProfile& phase, const engine::MachineCeilings& ceilings) {
  std::vector<ProfileRow> rows;
  for (std::size_t i = 0; i < phase.operations.size(); ++i) {
    if (phase.operations[i].launches > 0) rows.push_back(profile_row(phase, i, ceilings));
  }
  return rows;
}

double listed_share(const std::vector<ProfileRow>& rows) {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += row.share_of_step;
  return sum;
}

template <class... Values>
std::string line(const char* format, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string phase_text(const char* name, const engine::PhaseProfile& phase, const engine::MachineCeilings& ceilings) {
  if (phase.steps == 0) return {};
  const double steps = static_cast<double>(phase.steps);
  const auto rows = profile_rows(phase, ceilings);
  std::string text = line("%s: %lld steps of %.1f rows, %.3f ms each, %.1f %% of it listed\n", name, static_cast<long long>(phase.steps),
                          static_cast<double>(phase.rows) / steps, static_cast<double>(phase.total_ns) / 1e6 / steps,
                          100 * listed_share(rows));
  text += line("  %-13s %9s %10s %7s %11s %13s %14s %11s\n", "operation", "launches", "ms", "share", "MB", "GMAC codes", "GMAC floats",
               "of ceiling");
  for (const ProfileRow& row : rows) {
    text += line("  %-13s %9.1f %10.4f %5.1f %% %11.3f %13.4f %14.4f ", row.name, row.launches, row.ms, 100 * row.share_of_step,
                 row.bytes / 1e6, row.code_macs / 1e9, row.float_macs / 1e9);
    text += row.share_of_ceiling ? line("%9.1f %%\n", 100 * *row.share_of_ceiling) : line("%11s\n", "-");
  }
  return text;
}

nlohmann::json phase_json(const engine::PhaseProfile& phase, const engine::MachineCeilings& ceilings) {
  if (phase.steps == 0) return nullptr;
  const auto rows = profile_rows(phase, ceilings);
  nlohmann::json operations = nlohmann::json::array();
  for (const ProfileRow& row : rows) {
    operations.push_back({{"operation", row.name}, {"launches", row.launches}, {"ms", row.ms}, {"bytes", row.bytes},
                          {"code_macs", row.code_macs}, {"float_macs", row.float_macs}, {"share_of_step", row.share_of_step},
                          {"share_of_ceiling", or_null<nlohmann::json>(row.share_of_ceiling)}});
  }
  const double steps = static_cast<double>(phase.steps);
  return {{"steps", phase.steps}, {"rows_per_step", static_cast<double>(phase.rows) / steps},
          {"ms_per_step", static_cast<double>(phase.total_ns) / 1e6 / steps}, {"listed_share", listed_share(rows)},
          {"operations", std::move(operations)}};
}

}  // namespace

ProfileReport::ProfileReport(engine::LanguageModel& model) : model_(model) { model_.profile_into(&profile_); }

ProfileReport::~ProfileReport() { model_.profile_into(nullptr); }

void ProfileReport::finish() {
  if (is_finished_) return;
  model_.profile_into(nullptr);
  ceilings_ = engine::measure_ceilings(model_.isa(), model_.num_threads());
  is_finished_ = true;
}

std::string ProfileReport::text() {
  finish();
  const std::string isa(model_.isa().empty() ? "the widest instruction set" : model_.isa());
  const std::string ceilings = line("ceilings of %d threads, %s: %.0f GMAC/s of codes, %.0f GMAC/s of floats, %.1f GB/s read\n",
                                    model_.num_threads(), isa.c_str(), ceilings_.code_macs / 1e9, ceilings_.float_macs / 1e9,
                                    ceilings_.memory_bytes / 1e9);
  return ceilings + phase_text("prefill", profile_.prefill, ceilings_) + phase_text("decode", profile_.decode, ceilings_) +
         "per step; rope, append and norms of heads run inside the launch of qkv: the workers' mean, not counted in qkv;\n"
         "caller = between the model's launches; above 100 % of a ceiling = data from caches\n";
}

nlohmann::json ProfileReport::json() {
  finish();
  nlohmann::json report;
  report["ceilings"] = {{"code_macs_per_s", ceilings_.code_macs}, {"float_macs_per_s", ceilings_.float_macs},
                        {"memory_bytes_per_s", ceilings_.memory_bytes}};
  report["prefill"] = phase_json(profile_.prefill, ceilings_);
  report["decode"] = phase_json(profile_.decode, ceilings_);
  return report;
}

}  // namespace kvpage::cli
