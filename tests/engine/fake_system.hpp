/// \file FakeSystem: files such as the system and its control groups write them.
#pragma once

#include "engine/backend/cgroup.hpp"
#include "loader/temp_dir.hpp"

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace kvpage_test {

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
  kvpage::engine::SystemRoots roots() const { return {dir_ / "proc", dir_ / "cgroup"}; }

 private:
  TempDir dir_;
};

}  // namespace kvpage_test
