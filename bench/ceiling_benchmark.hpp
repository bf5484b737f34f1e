/// \file What a benchmark that stands beside a ceiling of the machine reports.
#pragma once

#include <benchmark/benchmark.h>

#include <string>

namespace kvpage_bench {

/// Times `launch`, which does `work` units (bytes, multiply-adds). Counters: `rate` per second, the `ceiling`, and the `share` of it;
/// the label is "UNIT beside AGAINST". tools/bench/figures.py reads them.
template <class Launch>
void run_beside_ceiling(benchmark::State& state, double work, double ceiling, const std::string& label, Launch&& launch) {
  for ([[maybe_unused]] auto _ : state) launch();
  state.counters["rate"] = benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["share"] = benchmark::Counter(work / ceiling, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["ceiling"] = ceiling;
  state.SetLabel(label);
}

}  // namespace kvpage_bench
