/// \file MachineCeilings: what a machine can do per second at most.
#pragma once

#include <string_view>

namespace kvpage::engine {

/// Of all threads together.
struct MachineCeilings {
  double code_macs = 0;     ///< multiply-adds of bytes
  double float_macs = 0;    ///< multiply-adds of floats
  double memory_bytes = 0;  ///< read from memory
};

/// Measured now, with threads of its own. `isa` empty = the widest. Cost: half a second, 256 MB.
MachineCeilings measure_ceilings(std::string_view isa, int num_threads);

}  // namespace kvpage::engine
