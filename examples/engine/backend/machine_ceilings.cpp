#include "engine/backend/machine_ceilings.hpp"

#include "engine/backend/ceilings.hpp"

namespace kvpage::engine {

MachineCeilings measure_ceilings(std::string_view isa, int num_threads) {
  Cpu cpu({.num_threads = num_threads, .isa = parse_isa(isa)});
  return Ceilings(cpu).measure();
}

}  // namespace kvpage::engine
