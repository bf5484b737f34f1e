/// \file Ceilings of the instruction sets that run here, by one thread and by all: one JSON line each, multiply-adds per second.
#include "engine/backend/ceilings.hpp"

#include <cstdio>

namespace {

void print(kvpage::Isa isa, int num_threads) {
  kvpage::Cpu cpu({.num_threads = num_threads, .isa = isa});
  kvpage::engine::Ceilings ceilings(cpu);
  std::printf("{\"isa\": \"%s\", \"threads\": %d, \"code_macs\": %.6g, \"float_macs\": %.6g}\n", kvpage::isa_name(isa), cpu.num_threads(),
              ceilings.dot_macs(), ceilings.fma_macs());
  std::fflush(stdout);
}

}  // namespace

int main() {
  for (const kvpage::Isa isa : kvpage::kAllIsas) {
    if (isa == kvpage::Isa::kGeneric || kvpage::missing_feature(isa, kvpage::detect_cpu_features()) != nullptr) continue;
    print(isa, 1);
    print(isa, 0);
  }
  return 0;
}
