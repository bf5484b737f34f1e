#include "engine/backend/cpu_count.hpp"

#include "engine/backend/cgroup.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace kvpage::engine {
namespace {

int affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
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
double cgroup_quota() {
  double smallest = 0;
  for (const std::string& folder : cgroup_folders("cpu")) {
    const double quota = quota_of(folder);
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
  }
  return smallest;
}

}  // namespace

int available_cpus() {
  const int cpus = affinity_cpus();
  const double quota = cgroup_quota();
  return quota > 0 ? std::clamp(static_cast<int>(quota), 1, cpus) : cpus;
}

}  // namespace kvpage::engine
