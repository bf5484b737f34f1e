#include "engine/finish_names.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/trace.hpp"
#include "tools/kvpage/trace_io.hpp"
#include "tools/kvpage/trace_simulation.hpp"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>

namespace kvpage::cli {
namespace {

constexpr std::string_view kDigestMark = "# digest ";

std::string hex(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, number);
  return digits;
}

/// A kept run: its trace and, if the file names it, what the scheduler said in all as one number.
struct KeptRun {
  SimTrace trace;
  std::string digest;
};

void keep(const std::string& path, const std::string& input, const SimTrace& trace, const SimOutcome& outcome) {
  std::string text = to_text(trace);
  if (!outcome.failed()) ((text += kDigestMark) += hex(outcome.report.digest)) += '\n';
  write_output(path, input, text);
}

KeptRun load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Failure(kExitLoad, "cannot open " + path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  KeptRun kept;
  // The line of the digest is ours: the simulator's format has actions alone.
  if (const std::size_t mark = text.rfind("\n" + std::string(kDigestMark)); mark != std::string::npos) {
    kept.digest = text.substr(mark + 1 + kDigestMark.size());
    while (!kept.digest.empty() && kept.digest.back() == '\n') kept.digest.pop_back();
    text.resize(mark + 1);
  }
  auto trace = read_sim_trace(text);
  if (!trace) throw Failure(kExitLoad, path + ":" + std::to_string(trace.error().line) + ": " + trace.error().rule);
  kept.trace = std::move(*trace);
  return kept;
}

std::string describe(const SimOutcome& outcome) {
  std::string text = "the rule is broken: " + outcome.rule;
  if (outcome.request >= 0) text += " (request " + std::to_string(outcome.request) + ")";
  return text;
}

/// Totals of some runs.
struct SimTotals {
  std::int64_t sealed = 0, aborted = 0, faults = 0, finished = 0, preempted = 0, model_ns = 0;
  std::map<std::string_view, std::int64_t> ends{};  ///< answers by reason

  void add(const SimReport& report) {
    sealed += report.sealed_steps, aborted += report.stats.aborted_steps;
    faults += report.faults, finished += report.finished;
    preempted += report.stats.preempted_keep + report.stats.preempted_demote + report.stats.preempted_recompute;
    model_ns += report.model_ns;
  }
  void print() const {
    const auto number = [](std::int64_t n) { return static_cast<long long>(n); };
    std::printf("  sealed steps    %10lld, %lld of them aborted\n  faults          %10lld\n  preemptions     %10lld\n"
                "  requests ended  %10lld\n",
                number(sealed), number(aborted), number(faults), number(preempted), number(finished));
    for (const auto& [reason, answers] : ends) {
      std::printf("  answers ended   %10lld by %s\n", number(answers), std::string(reason).c_str());
    }
    std::printf("  model time      %10.1f s\n", static_cast<double>(model_ns) / 1e9);
  }
};

/// As kvpage::replay, and counts why answers ended.
SimReport replay_counting(const SimConfig& world, const std::vector<SimAction>& actions, SimTotals& totals) {
  Simulation simulation{world};
  for (const SimAction& action : actions) simulation.act(action);
  const SimReport report = simulation.finish();
  totals.add(report);
  for (std::size_t reason = 0; reason < std::size(simulation.world().book.reasons); ++reason) {
    const std::int64_t answers = simulation.world().book.reasons[reason];
    if (answers > 0) totals.ends[engine::name_of(static_cast<FinishReason>(reason))] += answers;
  }
  return report;
}

int replay_kept(const TraceSimulateOptions& options) {
  const KeptRun kept = load(options.from);
  SimTotals totals;
  const SimConfig world = draw_sim_config(kept.trace.seed);
  const SimOutcome outcome = sim_outcome([&] { return replay_counting(world, kept.trace.actions, totals); });
  if (!options.output.empty()) keep(options.output, options.from, kept.trace, outcome);
  std::printf("%s: seed %" PRIu64 ", %zu actions\n", options.from.c_str(), kept.trace.seed, kept.trace.actions.size());
  totals.print();
  if (outcome.failed()) throw Failure(kExitRun, options.from + ": " + describe(outcome));
  const std::string digest = hex(outcome.report.digest);
  if (!kept.digest.empty() && kept.digest != digest) {
    throw Failure(kExitRun, options.from + ": the run has the digest " + digest + ", the kept one had " + kept.digest +
                                ": this program does not do what the one that wrote the file did");
  }
  std::printf("no rule is broken; digest %s%s\n", digest.c_str(), kept.digest.empty() ? "" : ", as kept");
  return kExitOk;
}

}  // namespace

int trace_simulate(const TraceSimulateOptions& options) {
  if (!options.from.empty()) return replay_kept(options);
  SimTotals totals;
  SimOutcome outcome;
  SimTrace trace;
  for (std::int64_t i = 0; i < options.count; ++i) {
    trace = {.seed = options.seed + static_cast<std::uint64_t>(i), .actions = {}};
    const SimConfig world = draw_sim_config(trace.seed);
    outcome = sim_outcome([&] { return simulate(world, &trace.actions); });
    if (!options.output.empty() && (i == 0 || outcome.failed())) keep(options.output, "", trace, outcome);
    // Its own actions lead through the same run: a kept failure can be found again.
    const SimOutcome again = sim_outcome([&] { return replay_counting(world, trace.actions, totals); });
    if (!outcome.failed() && again.report.digest != outcome.report.digest) outcome.rule = "a run replays bit for bit";
    if (outcome.failed()) break;
  }
  const std::string seed = std::to_string(trace.seed);
  if (options.count == 1) {
    std::printf("seed %s: %zu actions\n", seed.c_str(), trace.actions.size());
  } else {
    std::printf("seeds %" PRIu64 " to %s\n", options.seed, seed.c_str());
  }
  totals.print();
  if (outcome.failed()) {
    const std::string keep_it = options.output.empty() ? "kvpage trace simulate --seed " + seed + " --out FILE && " : "";
    const std::string file = options.output.empty() ? "FILE" : options.output;
    throw Failure(kExitRun, "seed " + seed + ": " + describe(outcome) + "; try " + keep_it + "kvpage trace shrink " + file);
  }
  std::printf("no rule is broken%s\n", options.count == 1 ? ("; digest " + hex(outcome.report.digest)).c_str() : "");
  return kExitOk;
}

int trace_shrink(const TraceShrinkOptions& options) {
  const KeptRun kept = load(options.file);
  const auto shrunk = shrink_failure(kept.trace, [](const SimConfig& world, const std::vector<SimAction>& actions) {
    return replay(world, actions);
  });
  if (!shrunk) throw Failure(kExitRun, options.file + ": the run breaks no rule, so there is nothing to shrink");
  if (!options.output.empty()) keep(options.output, options.file, shrunk->trace, shrunk->outcome);
  std::printf("%s: %s\nactions left: %zu of %zu, after %lld runs\n%s", options.file.c_str(), describe(shrunk->outcome).c_str(),
              shrunk->trace.actions.size(), kept.trace.actions.size(), static_cast<long long>(shrunk->num_runs),
              to_text(shrunk->trace).c_str());
  return kExitOk;
}

}  // namespace kvpage::cli
