/// \file available_cpus: how many threads this process should use.
#pragma once

#include "engine/backend/cgroup.hpp"

namespace kvpage::engine {

/// CPUs that affinity and the quotas of this process's cgroups leave to it; at least 1. A quota of 1.5 CPUs counts as 1.
int available_cpus(const SystemRoots& roots = {});

}  // namespace kvpage::engine
