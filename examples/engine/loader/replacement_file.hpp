/// \file ReplacementFile: a new content for a path, that is there whole or not at all.
#pragma once

#include <kvpage/base/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace kvpage::engine {

/// Writes beside the path, into a file of its own, and moves it there in the end. Any number of processes may write the same path: the
/// last one stays. Without `commit` nothing remains, and what a killed process left is removed by the next `create` of the path.
/// Errors: texts of the system, such as "No space left on device"; also for a limit on file sizes, without a signal.
class ReplacementFile {
 public:
  /// Makes the file and, if the file system can, room for `num_bytes`. The folder is made if it is missing.
  static Expected<ReplacementFile, std::string> create(const std::filesystem::path& path, std::int64_t num_bytes);

  ReplacementFile(ReplacementFile&& other) noexcept;
  ReplacementFile& operator=(ReplacementFile&&) = delete;
  ~ReplacementFile();

  /// Appends.
  Expected<void, std::string> write(std::span<const std::byte> bytes);

  /// Waits until the content is on the disk, and moves it to the path.
  Expected<void, std::string> commit();

 private:
  ReplacementFile(std::filesystem::path path, std::filesystem::path temporary, int fd) noexcept;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once it was moved
  int fd_;
};

}  // namespace kvpage::engine
