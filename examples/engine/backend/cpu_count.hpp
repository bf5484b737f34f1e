/// \file available_cpus: how many threads this process should use.
#pragma once

namespace kvpage::engine {

/// CPUs that affinity and the cgroup's quota leave to this process; at least 1. A quota of 1.5 CPUs counts as 1.
int available_cpus();

}  // namespace kvpage::engine
