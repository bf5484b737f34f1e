#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/trace.hpp"
#include "tools/kvpage/trace_io.hpp"
#include "tools/kvpage/trace_simulation.hpp"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>
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
  std::int64_t runs = 0, sealed = 0, aborted = 0, faults = 0, finished = 0, preempted = 0, model_ns = 0;

  void add(const SimReport& report) {
    ++runs;
    sealed += report.sealed_steps, aborted += report.stats.aborted_steps;
    faults += report.faults, finished += report.finished;
    preempted += report.stats.preempted_keep + report.stats.preempted_recompute;
    model_ns += report.model_ns;
  }
  void print() const {
    const auto number = [](std::int64_t n) { return static_cast<long long>(n); };
    std::printf("  sealed steps    %10lld, %lld of them aborted\n  faults          %10lld\n  requests ended  %10lld\n"
                "  preemptions     %10lld\n  model time      %10.1f s\n",
                number(sealed), number(aborted), number(faults), number(finished), number(preempted), static_cast<double>(model_ns) / 1e9);
  }
};

int replay_kept(const TraceSimulateOptions& options) {
  const KeptRun kept = load(options.from);
  const SimOutcome outcome = sim_outcome([&] { return replay(draw_sim_config(kept.trace.seed), kept.trace.actions); });
  if (!options.output.empty()) keep(options.output, options.from, kept.trace, outcome);
  SimTotals totals;
  totals.add(outcome.report);
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
  for (std::int64_t i = 0; i < options.count; ++i) {
    SimTrace trace{.seed = options.seed + static_cast<std::uint64_t>(i), .actions = {}};
    const SimOutcome outcome = sim_outcome([&] { return simulate(draw_sim_config(trace.seed), &trace.actions); });
    totals.add(outcome.report);
    if (!options.output.empty() && (i == 0 || outcome.failed())) keep(options.output, "", trace, outcome);
    if (options.count == 1) std::printf("seed %" PRIu64 ": %zu actions\n", trace.seed, trace.actions.size());
    if (outcome.failed()) {
      totals.print();
      const std::string file = options.output.empty() ? "FILE" : options.output;
      const std::string seed = std::to_string(trace.seed);
      const std::string keep_it = options.output.empty() ? "kvpage trace simulate --seed " + seed + " --out FILE && " : "";
      throw Failure(kExitRun, "seed " + seed + ": " + describe(outcome) + "; try " + keep_it + "kvpage trace shrink " + file);
    }
    if (options.count > 1 && i + 1 < options.count) continue;
    if (options.count > 1) std::printf("seeds %" PRIu64 " to %" PRIu64 "\n", options.seed, trace.seed);
    totals.print();
    std::printf("no rule is broken%s\n", options.count == 1 ? ("; digest " + hex(outcome.report.digest)).c_str() : "");
  }
  return kExitOk;
}

int trace_shrink(const TraceShrinkOptions& options) {
  const KeptRun kept = load(options.file);
  const auto shrunk = shrink_failure(kept.trace, [](const SimConfig& world, const std::vector<SimAction>& actions) {
    return replay(world, actions);
  });
  if (!shrunk) throw Failure(kExitRun, options.file + ": the run breaks no rule, so there is nothing to shrink");
  if (!options.output.empty()) keep(options.output, options.file, shrunk->trace, shrunk->outcome);
  std::printf("%s: %s\n%zu of %zu actions are enough (%lld runs):\n%s", options.file.c_str(), describe(shrunk->outcome).c_str(),
              shrunk->trace.actions.size(), kept.trace.actions.size(), static_cast<long long>(shrunk->num_runs),
              to_text(shrunk->trace).c_str());
  return kExitOk;
}

}  // namespace kvpage::cli
