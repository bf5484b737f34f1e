/// \file shrink: the shortest list of actions that still fails, by leaving parts out.
#pragma once

#include "tools/simulator/simulation.hpp"

KVPAGE_BEGIN_NAMESPACE

/// Leaves out parts of `trace`, halves first, single actions last, as long as `fails(trace)` stays true. Nothing in the
/// result can go. Any part of a trace is a trace. Requires: fails(trace). Cost: O(n log n) calls of `fails` when few actions matter.
template <class Fails>
[[nodiscard]] std::vector<SimAction> shrink(std::vector<SimAction> trace, Fails&& fails) {
  for (std::size_t part = std::max<std::size_t>(1, trace.size() / 2);;) {
    const std::size_t size_before = trace.size();
    for (std::size_t at = 0; at < trace.size();) {
      std::vector<SimAction> shorter = trace;
      const auto begin = shorter.begin() + static_cast<std::ptrdiff_t>(at);
      shorter.erase(begin, begin + static_cast<std::ptrdiff_t>(std::min(part, trace.size() - at)));
      if (fails(shorter)) {
        trace = std::move(shorter);
      } else {
        at += part;
      }
    }
    if (part > 1) {
      part /= 2;
    } else if (trace.size() == size_before) {
      return trace;
    }
  }
}

KVPAGE_END_NAMESPACE
