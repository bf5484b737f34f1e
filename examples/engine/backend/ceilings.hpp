/// \file What this machine can do at most: byte dots, float multiply-adds and memory reads per second, measured.
#pragma once

#include "engine/backend/machine_ceilings.hpp"
#include "engine/backend/mapped_memory.hpp"

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>

#define KVPAGE_ISA_BODY "engine/backend/ceilings_body.hpp"
#include <kvpage/exec/for_each_isa.hpp>

namespace kvpage::engine {

/// Shortest of `repeats` runs of fn, in seconds.
template <class Fn>
double best_seconds(int repeats, Fn&& fn) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    fn();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// Ceilings of all workers of one Cpu together.
class Ceilings {
 public:
  explicit Ceilings(Cpu& cpu) : cpu_(cpu) {}

  /// All of them. Cost: half a second and 256 MB.
  MachineCeilings measure() { return {dot_macs(), fma_macs(), memory_bytes()}; }

  /// Multiply-adds of bytes per second.
  double dot_macs() { return rate(cpu_.select(IsaTable<Loop>{KVPAGE_ISA_TABLE(dot_loop)}), 64.0); }
  /// Multiply-adds of floats per second.
  double fma_macs() { return rate(cpu_.select(IsaTable<Loop>{KVPAGE_ISA_TABLE(fma_loop)}), 16.0); }
  /// Bytes read from memory per second, over 256 MB that lie as the weights do: the better of one and eight streams per worker.
  double memory_bytes() {
    constexpr std::int64_t kBytes = std::int64_t{256} << 20;
    const MappedMemory memory(kBytes);
    std::memset(memory.span().data(), 1, memory.span().size());  // else all pages are one page of zeros
    const double one = read_rate(cpu_.select(IsaTable<Loop>{KVPAGE_ISA_TABLE(read_loop<1>)}), memory.span());
    const double eight = read_rate(cpu_.select(IsaTable<Loop>{KVPAGE_ISA_TABLE(read_loop<8>)}), memory.span());
    return std::max(one, eight);
  }

 private:
  using Loop = float (*)(std::int64_t, const std::uint8_t*);

  double rate(Loop loop, double macs) {
    const int chains = cpu_.select(IsaTable<int (*)()>{KVPAGE_ISA_TABLE(num_chains)})();
    alignas(64) std::uint8_t bytes[64];
    for (std::size_t i = 0; i < 64; ++i) bytes[i] = static_cast<std::uint8_t>(i * 3 + 1);
    const std::int64_t rounds = cpu_.isa() == Isa::kGeneric ? 20'000 : 2'000'000;
    const double seconds = best_seconds(5, [&] { cpu_.parallel([&](int) { keep(loop(rounds, bytes)); }); });
    return macs * chains * static_cast<double>(rounds) * cpu_.num_threads() / seconds;
  }

  double read_rate(Loop loop, std::span<const std::byte> memory) {
    const std::int64_t part = static_cast<std::int64_t>(memory.size()) / cpu_.num_threads() / 4096 * 4096;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(memory.data());
    const double seconds = best_seconds(7, [&] { cpu_.parallel([&](int worker) { keep(loop(part, bytes + worker * part)); }); });
    return static_cast<double>(part * cpu_.num_threads()) / seconds;
  }

  void keep(float value) {
    if (value == 0.123f) sink_.fetch_add(1, std::memory_order_relaxed);
  }

  Cpu& cpu_;
  std::atomic<int> sink_{0};
};

}  // namespace kvpage::engine
