/// \file How many threads a process should use: its affinity, and the quotas of its control groups.
#include "engine/backend/cpu_count.hpp"
#include "engine/fake_system.hpp"
#include "support/catch.hpp"

#include <sched.h>

namespace kvpage_test {
namespace {

using kvpage::engine::available_cpus;

/// The CPUs of this thread; they are its own again at the end.
class Affinity {
 public:
  Affinity() { REQUIRE(sched_getaffinity(0, sizeof mine_, &mine_) == 0); }
  ~Affinity() { static_cast<void>(sched_setaffinity(0, sizeof mine_, &mine_)); }

  int count() const { return CPU_COUNT(&mine_); }
  /// Leaves the first `count` of them.
  void keep(int count) const {
    cpu_set_t fewer;
    CPU_ZERO(&fewer);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&fewer) < count; ++cpu) {
      if (CPU_ISSET(cpu, &mine_)) CPU_SET(cpu, &fewer);
    }
    REQUIRE(sched_setaffinity(0, sizeof fewer, &fewer) == 0);
  }

 private:
  cpu_set_t mine_{};
};

/// Threads under a quota of `quota` when affinity leaves all of the machine's.
int under(const std::string& quota) {
  const FakeSystem system("0::/a\n");
  system.write("cgroup/a/cpu.max", quota);
  return available_cpus(system.roots());
}

}  // namespace

TEST_CASE("engine.cpus.affinity_counts", "[engine]") {
  const Affinity affinity;
  const FakeSystem none("0::/\n");
  CHECK(available_cpus(none.roots()) == affinity.count());
  for (int count = 1; count <= affinity.count(); ++count) {
    affinity.keep(count);
    CHECK(available_cpus(none.roots()) == count);
    CHECK(available_cpus() <= count);
    CHECK(available_cpus() >= 1);
  }
}

TEST_CASE("engine.cpus.a_quota_counts_in_whole_cpus_within_affinity", "[engine]") {
  const Affinity affinity;
  const int all = affinity.count();
  for (const char* none : {"max 100000\n", "", "max\n", "0 100000\n", "-1 100000\n", "100000 0\n", "some 100000\n"}) {
    INFO('"' << none << '"');
    CHECK(under(none) == all);
  }
  CHECK(under("1000 100000\n") == 1);  // never 0 threads
  CHECK(under("100000 100000\n") == 1);
  CHECK(under("199999 100000\n") == 1);
  CHECK(under("9223372036854775807 1\n") == all);
  if (all >= 2) {
    CHECK(under("200000 100000\n") == 2);
    CHECK(under("100000 50000\n") == 2);
    affinity.keep(1);
    CHECK(under("200000 100000\n") == 1);
  }
}

TEST_CASE("engine.cpus.the_smallest_quota_between_process_and_root_counts", "[engine]") {
  const Affinity affinity;
  const FakeSystem system("0::/a/b\n");
  system.write("cgroup/a/b/cpu.max", "900000 100000\n");
  system.write("cgroup/a/cpu.max", "150000 100000\n");
  system.write("cgroup/a/other/cpu.max", "1000 100000\n");
  CHECK(available_cpus(system.roots()) == 1);
  system.write("cgroup/a/cpu.max", "max 100000\n");
  CHECK(available_cpus(system.roots()) == std::min(9, affinity.count()));
  system.write("cgroup/cpu.max", "100000 100000\n");  // a container sees its own quota at the root
  CHECK(available_cpus(system.roots()) == 1);
}

TEST_CASE("engine.cpus.a_damaged_list_of_groups_leaves_the_root", "[engine]") {
  for (const char* list : {"", "\n", "0\n", "0:\n", "0::\n", "0::a\n", "::::\n"}) {
    INFO('"' << list << '"');
    const FakeSystem system(list);
    CHECK(available_cpus(system.roots()) >= 1);
  }
}

TEST_CASE("engine.cpus.version_1_has_quota_and_period_in_files_of_their_own", "[engine]") {
  const Affinity affinity;
  const FakeSystem system("5:cpu,cpuacct:/box\n4:memory:/other\n");
  CHECK(available_cpus(system.roots()) == affinity.count());
  system.write("cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  system.write("cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  CHECK(available_cpus(system.roots()) == affinity.count());
  system.write("cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "120000\n");
  CHECK(available_cpus(system.roots()) == 1);
}

}  // namespace kvpage_test
