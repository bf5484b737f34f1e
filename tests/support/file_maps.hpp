/// \file FileMaps: what of a file is in the address space of this process, and how much of that is resident.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace kvpage_test {

struct FileMaps {
  std::int64_t mapped_bytes = 0;
  std::int64_t resident_bytes = 0;

  explicit FileMaps(const std::filesystem::path& path) {
    std::ifstream maps("/proc/self/smaps");
    if (!maps) throw std::runtime_error{"the system does not say what is mapped"};
    bool inside = false;
    for (std::string line; std::getline(maps, line);) {
      if (line.find('-') < line.find(' ')) inside = line.ends_with(path.string());  // "ADDRESS-ADDRESS ... PATH" begins a map
      if (inside && line.starts_with("Size:")) mapped_bytes += std::stoll(line.substr(5)) * 1024;
      if (inside && line.starts_with("Rss:")) resident_bytes += std::stoll(line.substr(4)) * 1024;
    }
  }
};

}  // namespace kvpage_test
