/// \file FileStamp: what a file system notes of a file, and changes when its bytes change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

struct stat;

namespace kvpage::engine {

/// Writing to a file changes its stamp, and so does replacing it. Programs can set mtime back, but not ctime.
struct FileStamp {
  std::uint64_t inode = 0;
  std::int64_t num_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;

  explicit FileStamp(const struct ::stat& status) noexcept;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;

  /// Whether every write from now on must change the stamp: file systems note times coarsely, so the last one must be a while ago.
  bool settled() const noexcept;
};

/// The stamp of the file that is at `path` now; empty if there is none, or it cannot be asked.
std::optional<FileStamp> file_stamp(const std::string& path) noexcept;

}  // namespace kvpage::engine
