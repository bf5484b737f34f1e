/// \file Which instruction sets a test can run here, and skipping with the reason where one cannot.
#pragma once

#include "support/environment.hpp"

#include <kvpage/exec/isa.hpp>

#include <string>
#include <vector>

namespace kvpage_test {

/// All instruction sets that this machine runs, generic first.
inline std::vector<kvpage::Isa> runnable_isas() {
  std::vector<kvpage::Isa> isas;
  for (const kvpage::Isa isa : kvpage::kAllIsas) {
    if (kvpage::missing_feature(isa, kvpage::detect_cpu_features()) == nullptr) isas.push_back(isa);
  }
  return isas;
}

/// Ends the test as skipped when this machine cannot run `isa`. Only for tests labelled isa-*.
inline void require_isa(kvpage::Isa isa) {
  if (const char* missing = kvpage::missing_feature(isa, kvpage::detect_cpu_features())) {
    skip(std::string(kvpage::isa_name(isa)) + ": " + missing);
  }
}

}  // namespace kvpage_test
