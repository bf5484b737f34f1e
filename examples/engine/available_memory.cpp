#include "engine/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace kvpage::engine {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The number in a file; empty if there is no file, or a word such as "max".
std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// "MemAvailable: 123 kB" of the system.
std::int64_t system_available(const SystemRoots& roots) {
  std::ifstream file(roots.proc + "/meminfo");
  for (std::string key; file >> key;) {
    std::int64_t kilobytes = 0;
    if (key == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
    std::getline(file, key);
  }
  return kUnlimited;
}

/// Pages of files in the use of a cgroup and of those below it. Version 1 counts these under names of their own.
std::int64_t page_cache_bytes(const std::string& folder) {
  std::ifstream file(folder + "/memory.stat");
  std::int64_t own = 0, with_children = 0, bytes = 0;
  for (std::string key; file >> key >> bytes;) {
    if (key == "active_file" || key == "inactive_file") own += bytes;
    if (key == "total_active_file" || key == "total_inactive_file") with_children += bytes;
  }
  return std::max(own, with_children);
}

std::int64_t cgroup_available(const std::string& folder) {
  auto limit = read_number(folder + "/memory.max");
  auto used = read_number(folder + "/memory.current");
  if (!limit) {  // version 1, where "no limit" is a number near 2^63
    limit = read_number(folder + "/memory.limit_in_bytes");
    used = read_number(folder + "/memory.usage_in_bytes");
  }
  if (!limit) return kUnlimited;
  const std::int64_t kept = std::max<std::int64_t>(0, used.value_or(0) - page_cache_bytes(folder));
  return std::max<std::int64_t>(0, *limit - kept);
}

}  // namespace

std::int64_t available_memory_bytes(const SystemRoots& roots) {
  std::int64_t least = system_available(roots);
  for (const std::string& folder : cgroup_folders("memory", roots)) least = std::min(least, cgroup_available(folder));
  return least;
}

}  // namespace kvpage::engine
