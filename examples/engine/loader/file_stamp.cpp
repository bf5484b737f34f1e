#include "engine/loader/file_stamp.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>

namespace kvpage::engine {
namespace {

/// FAT, the coarsest, notes times in steps of two seconds.
constexpr std::int64_t kSettleNs = 3'000'000'000;

std::int64_t nanoseconds(const timespec& time) noexcept { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

FileStamp::FileStamp(const struct ::stat& status) noexcept
    : inode(status.st_ino), num_bytes(status.st_size), mtime_ns(nanoseconds(status.st_mtim)), ctime_ns(nanoseconds(status.st_ctim)) {}

// A time in the future tells nothing either.
bool FileStamp::settled() const noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::max(mtime_ns, ctime_ns) < nanoseconds(now) - kSettleNs;
}

std::optional<FileStamp> file_stamp(const std::string& path) noexcept {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileStamp(status);
}

}  // namespace kvpage::engine
