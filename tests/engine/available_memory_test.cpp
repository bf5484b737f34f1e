/// \file What a process may still use and what it takes, from files such as the system and its control groups write them.
#include "engine/available_memory.hpp"
#include "engine/fake_system.hpp"
#include "engine/own_memory.hpp"
#include "support/catch.hpp"

#include <limits>

namespace kvpage_test {
namespace {

using kvpage::engine::available_memory_bytes;
using kvpage::engine::cgroup_folders;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("engine.memory.the_tightest_group_between_process_and_root_counts", "[engine]") {
  const FakeSystem system("0::/a/b/c\n");
  CHECK(available_memory_bytes(system.roots()) == kNoLimit);
  system.write("proc/meminfo", "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable: 800 kB\nCached: 5 kB\n");
  CHECK(available_memory_bytes(system.roots()) == 800 * 1024);
  system.group("/a/b/c", "max\n", 1000);
  CHECK(available_memory_bytes(system.roots()) == 800 * 1024);
  system.group("/a/b/c", "500000\n", 1000);
  CHECK(available_memory_bytes(system.roots()) == 499'000);
  system.group("/a", "300000\n", 100'000);
  CHECK(available_memory_bytes(system.roots()) == 200'000);
  system.group("/a/b", "100000\n", 90'000);
  CHECK(available_memory_bytes(system.roots()) == 10'000);
  system.group("", "70000\n", 65'000);  // a container sees its own limit at the root
  CHECK(available_memory_bytes(system.roots()) == 5'000);
  system.group("/a/other", "10\n", 0);
  CHECK(available_memory_bytes(system.roots()) == 5'000);
}

TEST_CASE("engine.memory.pages_of_files_are_not_lost_and_nothing_is_below_zero", "[engine]") {
  const FakeSystem system("0::/a\n");
  system.group("/a", "100000", 90'000, 30'000);
  CHECK(available_memory_bytes(system.roots()) == 70'000);
  system.group("/a", "100000", 50'000, 40'000);  // counted at another moment than the use
  CHECK(available_memory_bytes(system.roots()) == 100'000);
  system.group("/a", "1000", 2'000);
  CHECK(available_memory_bytes(system.roots()) == 0);
}

TEST_CASE("engine.memory.a_path_of_the_host_leaves_the_root", "[engine]") {
  for (const char* path : {"0::/docker/0123\n", "0::/../../elsewhere\n", "0::/\n"}) {
    const FakeSystem system(path);
    system.group("", "70000\n", 65'000);
    system.write("elsewhere/memory.max", "1");
    CHECK(available_memory_bytes(system.roots()) == 5'000);
  }
}

TEST_CASE("engine.memory.what_a_process_takes_is_anonymous_or_swapped_out", "[engine]") {
  const FakeSystem system("0::/\n");
  const auto own = [&] { return kvpage::engine::own_memory_bytes(system.roots().proc); };
  CHECK_FALSE(own());
  system.write("proc/self/smaps_rollup", "1000-2000 ---p 00000000 00:00 0   [rollup]\nRss:   900 kB\nPss_Anon:  7 kB\n");
  CHECK_FALSE(own());
  system.write("proc/self/smaps_rollup", "1000-2000 ---p 00000000 00:00 0   [rollup]\nRss:   900 kB\nPss_Anon:  7 kB\nAnonymous:  500 kB\n"
                                         "AnonHugePages:  400 kB\nSwap:   30 kB\nSwapPss:  20 kB\n");
  CHECK(own() == 530 * 1024);
}

TEST_CASE("engine.memory.version_1_has_a_tree_per_controller", "[engine]") {
  const FakeSystem system("4:memory:/x/y\n3:cpu,cpuacct:/z\n0::/\n");
  system.write("cgroup/memory/x/memory.limit_in_bytes", "100000");
  system.write("cgroup/memory/x/memory.usage_in_bytes", "60000");
  system.write("cgroup/memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\ntotal_active_file 5000\n");
  system.write("cgroup/memory/x/y/memory.limit_in_bytes", "9223372036854771712");
  CHECK(available_memory_bytes(system.roots()) == 65'000);
  const kvpage::engine::SystemRoots roots = system.roots();
  const std::string cpu = roots.cgroup + "/cpu,cpuacct";
  CHECK(cgroup_folders("cpuacct", roots) == std::vector<std::string>{cpu + "/z", cpu, roots.cgroup});
}

}  // namespace kvpage_test
