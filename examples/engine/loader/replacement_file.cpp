#include "engine/loader/replacement_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>
#include <utility>

namespace kvpage::engine {
namespace {

constexpr std::string_view kSuffix = ".part";
constexpr int kAttempts = 100;

Unexpected<std::string> system_error() { return Unexpected{std::system_category().message(errno)}; }

/// While it lives, a write beyond the limit on file sizes fails instead of ending the process.
class SizeSignalBlock {
 public:
  SizeSignalBlock() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &previous_);
  }
  SizeSignalBlock(const SizeSignalBlock&) = delete;
  SizeSignalBlock& operator=(const SizeSignalBlock&) = delete;
  ~SizeSignalBlock() {
    const int error = errno;
    const timespec at_once{};
    if (sigismember(&previous_, SIGXFSZ) == 0) static_cast<void>(sigtimedwait(&signal_, nullptr, &at_once));
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
    errno = error;
  }

 private:
  sigset_t signal_;
  sigset_t previous_;
};

/// Removes files of writers that are gone: a living one holds the lock of its file.
void remove_leftovers(const std::filesystem::path& path) {
  const std::string prefix = path.filename().string() + ".";
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator entry(path.parent_path(), error); !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(kSuffix)) continue;
    const int fd = ::open(entry->path().c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
    ::close(fd);
  }
}

/// A name that nobody else is likely to choose now.
std::filesystem::path temporary_name(const std::filesystem::path& path, int attempt) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::string name = path.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(now.tv_nsec + attempt);
  return name.append(kSuffix);
}

/// Opens a new file and locks it. -1: another one was there, or a cleaner took it before it was locked.
int open_locked(const std::filesystem::path& temporary) {
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return -1;
  struct stat status {};
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno == ENOLCK || errno == EOPNOTSUPP;  // a system without locks
  if (locked && ::fstat(fd, &status) == 0 && status.st_nlink == 1) return fd;
  ::close(fd);
  errno = EEXIST;
  return -1;
}

}  // namespace

Expected<ReplacementFile, std::string> ReplacementFile::create(const std::filesystem::path& path, std::int64_t num_bytes) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return Unexpected{error.message()};
  remove_leftovers(path);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::filesystem::path temporary = temporary_name(path, attempt);
    const int fd = open_locked(temporary);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return system_error();
    ReplacementFile file(path, std::move(temporary), fd);
    const SizeSignalBlock block;
    if (::fallocate(fd, 0, 0, num_bytes) != 0 && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) return system_error();
    return file;
  }
  return system_error();
}

ReplacementFile::ReplacementFile(std::filesystem::path path, std::filesystem::path temporary, int fd) noexcept
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

ReplacementFile::ReplacementFile(ReplacementFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})), fd_(std::exchange(other.fd_, -1)) {}

ReplacementFile::~ReplacementFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

Expected<void, std::string> ReplacementFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kMostPerCall = std::size_t{64} << 20;
  const SizeSignalBlock block;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kMostPerCall));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Expected<void, std::string> ReplacementFile::commit() {
  if (::fsync(fd_) != 0) return system_error();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_error();
  temporary_.clear();
  // The name too: without it a crash may bring back the old file, which is as good, so a refusal does not matter.
  const int folder = ::open(path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) ::fsync(folder), ::close(folder);
  return {};
}

}  // namespace kvpage::engine
