#include "engine/backend/cpu_count.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace kvpage::engine {
namespace {

/// The kernel refuses a set smaller than its own, which has more than 1,024 CPUs on large machines.
int affinity_cpus() {
  for (std::size_t num_sets = 1; num_sets <= 64; num_sets *= 2) {
    std::vector<cpu_set_t> sets(num_sets);
    const std::size_t bytes = num_sets * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, sets.data()) != 0) continue;
    return std::max(1, CPU_COUNT_S(bytes, sets.data()));
  }
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// The quota of one cgroup folder in CPUs, or 0 if it sets none. Version 2 writes "QUOTA PERIOD" or "max PERIOD".
double quota_of(const std::string& folder) {
  std::ifstream v2(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period) return quota == "max" || period <= 0 ? 0 : std::atof(quota.c_str()) / period;
  std::ifstream v1_quota(folder + "/cpu.cfs_quota_us");
  std::ifstream v1_period(folder + "/cpu.cfs_period_us");
  double q = 0;
  if (v1_quota >> q && v1_period >> period && q > 0 && period > 0) return q / period;
  return 0;
}

/// The smallest quota of this process's cgroup and its ancestors, or 0.
double cgroup_quota(const SystemRoots& roots) {
  double smallest = 0;
  for (const std::string& folder : cgroup_folders("cpu", roots)) {
    const double quota = quota_of(folder);
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
  }
  return smallest;
}

}  // namespace

int available_cpus(const SystemRoots& roots) {
  const int cpus = affinity_cpus();
  const double quota = cgroup_quota(roots);
  return quota > 0 ? static_cast<int>(std::clamp(quota, 1.0, static_cast<double>(cpus))) : cpus;
}

}  // namespace kvpage::engine
