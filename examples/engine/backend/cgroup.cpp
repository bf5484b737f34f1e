#include "engine/backend/cgroup.hpp"

#include <fstream>

namespace kvpage::engine {

std::vector<std::string> cgroup_folders(std::string_view controller, const SystemRoots& roots) {
  std::vector<std::string> folders;
  std::ifstream file(roots.proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "ID:CONTROLLERS:PATH", no controllers = version 2
    const auto controllers = line.find(':');
    const auto path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string names = line.substr(controllers + 1, path - controllers - 1);
    if (!names.empty() && ("," + names + ",").find("," + std::string(controller) + ",") == std::string::npos) continue;
    const std::string root = roots.cgroup + (names.empty() ? "" : "/" + names);
    std::string below = line.substr(path + 1);
    // Outside of what this process sees, or no path: only the root is known.
    if (!below.starts_with('/') || below.starts_with("/..")) below.clear();
    for (; !below.empty() && below != "/"; below.resize(below.rfind('/'))) folders.push_back(root + below);
    folders.push_back(root);
  }
  return folders;
}

}  // namespace kvpage::engine
