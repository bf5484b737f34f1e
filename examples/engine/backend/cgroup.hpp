/// \file cgroup_folders: where the limits of this process's control groups are written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// Where the system's files are; another place in tests.
struct SystemRoots {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

/// The folders of the process's groups that may limit what `controller` ("cpu", "memory") counts, each with its ancestors up to
/// the root; of version 2 and of version 1. A folder need not exist: in a container the path may be one of the host.
/// Source: cgroups(7), /proc/[pid]/cgroup.
std::vector<std::string> cgroup_folders(std::string_view controller, const SystemRoots& roots = {});

}  // namespace kvpage::engine
