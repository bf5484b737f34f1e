#include "engine/own_memory.hpp"

#include <fstream>

namespace kvpage::engine {

// "Anonymous: 123 kB" and "Swap: 4 kB", the sums over all maps. /proc/self/status has a number of its own, which many
// kernels keep per processor and add up only roughly.
std::optional<std::int64_t> own_memory_bytes(const std::string& proc) {
  std::ifstream file(proc + "/self/smaps_rollup");
  std::optional<std::int64_t> anonymous, swapped;
  for (std::string key; file >> key; std::getline(file, key)) {
    if (key != "Anonymous:" && key != "Swap:") continue;
    std::int64_t kilobytes = 0;
    if (file >> kilobytes) (key == "Swap:" ? swapped : anonymous) = kilobytes * 1024;
  }
  if (!anonymous) return std::nullopt;
  return *anonymous + swapped.value_or(0);
}

}  // namespace kvpage::engine
