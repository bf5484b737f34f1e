/// \file What a process may still use, from files such as the system and its control groups write them.
#include "engine/available_memory.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"

#include <fstream>
#include <limits>

namespace kvpage_test {
namespace {

using kvpage::engine::available_memory_bytes;
using kvpage::engine::cgroup_folders;
using kvpage::engine::SystemRoots;

/// A system of files.
class FakeSystem {
 public:
  explicit FakeSystem(std::string_view cgroup_of_process) { write("proc/self/cgroup", cgroup_of_process); }

  void write(const std::string& path, std::string_view text) const {
    std::filesystem::create_directories((dir_ / path).parent_path());
    std::ofstream(dir_ / path) << text;
  }
  /// A group of version 2.
  void group(const std::string& path, std::string_view limit, std::int64_t used, std::int64_t file_pages = 0) const {
    write("cgroup" + path + "/memory.max", limit);
    write("cgroup" + path + "/memory.current", std::to_string(used));
    write("cgroup" + path + "/memory.stat",
          "anon 5\nactive_file " + std::to_string(file_pages) + "\nkernel 7\ninactive_file " + std::to_string(file_pages) + "\n");
  }
  SystemRoots roots() const { return {dir_ / "proc", dir_ / "cgroup"}; }
  std::int64_t available() const { return available_memory_bytes(roots()); }

 private:
  TempDir dir_;
};

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("engine.memory.the_tightest_group_between_process_and_root_counts", "[engine]") {
  const FakeSystem system("0::/a/b/c\n");
  CHECK(system.available() == kNoLimit);
  system.write("proc/meminfo", "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable: 800 kB\nCached: 5 kB\n");
  CHECK(system.available() == 800 * 1024);
  system.group("/a/b/c", "max\n", 1000);
  CHECK(system.available() == 800 * 1024);
  system.group("/a/b/c", "500000\n", 1000);
  CHECK(system.available() == 499'000);
  system.group("/a", "300000\n", 100'000);
  CHECK(system.available() == 200'000);
  system.group("/a/b", "100000\n", 90'000);
  CHECK(system.available() == 10'000);
  system.group("", "70000\n", 65'000);  // a container sees its own limit at the root
  CHECK(system.available() == 5'000);
  system.group("/a/other", "10\n", 0);
  CHECK(system.available() == 5'000);
}

TEST_CASE("engine.memory.pages_of_files_are_not_lost_and_nothing_is_below_zero", "[engine]") {
  const FakeSystem system("0::/a\n");
  system.group("/a", "100000", 90'000, 30'000);
  CHECK(system.available() == 70'000);
  system.group("/a", "100000", 50'000, 40'000);  // counted at another moment than the use
  CHECK(system.available() == 100'000);
  system.group("/a", "1000", 2'000);
  CHECK(system.available() == 0);
}

TEST_CASE("engine.memory.a_path_of_the_host_leaves_the_root", "[engine]") {
  for (const char* path : {"0::/docker/0123\n", "0::/../../elsewhere\n", "0::/\n"}) {
    const FakeSystem system(path);
    system.group("", "70000\n", 65'000);
    system.write("elsewhere/memory.max", "1");
    CHECK(system.available() == 5'000);
  }
}

TEST_CASE("engine.memory.version_1_has_a_tree_per_controller", "[engine]") {
  const FakeSystem system("4:memory:/x/y\n3:cpu,cpuacct:/z\n0::/\n");
  system.write("cgroup/memory/x/memory.limit_in_bytes", "100000");
  system.write("cgroup/memory/x/memory.usage_in_bytes", "60000");
  system.write("cgroup/memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\ntotal_active_file 5000\n");
  system.write("cgroup/memory/x/y/memory.limit_in_bytes", "9223372036854771712");
  CHECK(system.available() == 65'000);
  const SystemRoots roots = system.roots();
  const std::string cpu = roots.cgroup + "/cpu,cpuacct";
  CHECK(cgroup_folders("cpuacct", roots) == std::vector<std::string>{cpu + "/z", cpu, roots.cgroup});
}

}  // namespace kvpage_test
