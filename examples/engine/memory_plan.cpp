#include "engine/memory_plan.hpp"

#include "engine/loader/gguf.hpp"
#include "engine/model/workspace.hpp"

#include <kvpage/base/checked.hpp>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace kvpage::engine {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The product, or "more than there is".
std::int64_t saturated_product(std::int64_t a, std::int64_t b) { return checked_mul(a, b).value_or(kUnlimited / 4); }

std::int64_t bytes_per_token(const ModelSpec& spec, const ModelConfig& config) {
  const auto types = kv_bytes_per_token(spec, config.block_size);
  const std::string wanted = config.kv_type.empty() ? default_kv_type(config.kernels) : config.kv_type;
  const auto found = std::find_if(types.begin(), types.end(), [&](const KvTypeBytes& type) { return type.name == wanted; });
  return found != types.end() ? found->bytes_per_token : types.front().bytes_per_token;
}

/// "MemAvailable: 123 kB" of the system, or kUnlimited.
std::int64_t system_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    std::int64_t kilobytes = 0;
    if (key == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
    std::getline(file, key);
  }
  return kUnlimited;
}

/// File pages in the cgroup's use: the system takes them back when memory is asked for.
std::int64_t cgroup_page_cache() {
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  std::int64_t total = 0;
  std::int64_t bytes = 0;
  for (std::string key; file >> key >> bytes;) {
    if (key == "active_file" || key == "inactive_file") total += bytes;
  }
  return total;
}

/// Limit minus use of the cgroup that this process sees as its root, or kUnlimited.
std::int64_t cgroup_available() {
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  std::int64_t limit = 0;
  std::int64_t used = 0;
  if (limit_file >> limit && used_file >> used) return std::max<std::int64_t>(0, limit - used + cgroup_page_cache());
  return kUnlimited;
}

}  // namespace

MemoryPlan plan_memory(const Gguf& file, const ModelSpec& spec, const ModelConfig& config) {
  MemoryPlan plan;
  plan.weight_bytes = file.file_bytes();
  plan.pool_bytes = saturated_product(round_up(pool_tokens_of(spec, config), config.block_size), bytes_per_token(spec, config));
  plan.workspace_bytes = Workspace::bytes(spec, config.step_tokens, kMaxLogitRows);
  return plan;
}

std::int64_t available_memory_bytes() { return std::min(system_available(), cgroup_available()); }

}  // namespace kvpage::engine
