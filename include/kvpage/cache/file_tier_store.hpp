/// \file FileTierStore: the slots of an OffloadTier in one file, which keeps them for the next start.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/cache/tier_store.hpp>

#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>

KVPAGE_BEGIN_NAMESPACE

/// One file, unbuffered, so that a full disk is seen by the write that meets it. It grows as slots are used; a file that is too short, cut
/// or damaged costs the slots concerned. Bytes are not forced to the device: what a power failure tears, the checksums find.
/// Threads: one owner. A file serves one tier at a time: with two, each takes the other's pages for damage.
class FileTierStore {
 public:
  static constexpr bool kPersistent = true;

  /// Opens the file, or creates it. Errors: ConfigError when that fails (value = errno) or capacity_bytes is not a file size.
  FileTierStore(const char* path, std::int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {
    constexpr auto kMaxBytes = static_cast<std::int64_t>(std::numeric_limits<long>::max());
    if (capacity_bytes < 0 || capacity_bytes > kMaxBytes) {
      throw_config_error("the capacity of a tier file must be a file size", capacity_bytes, kMaxBytes, "bytes");
    }
    errno = 0;
    file_.reset(std::fopen(path, "r+b"));
    if (file_ == nullptr && errno == ENOENT) file_.reset(std::fopen(path, "w+bx"));
    if (file_ == nullptr || std::setvbuf(file_.get(), nullptr, _IONBF, 0) != 0) {
      throw_config_error("the tier file can be neither opened for reading and writing nor created", errno, 0, "errno");
    }
  }

  [[nodiscard]] std::int64_t capacity_bytes() const noexcept { return capacity_bytes_; }

  bool write(std::int64_t offset, std::span<const std::byte> bytes) noexcept {
    return seek(offset) && std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  }
  bool read(std::int64_t offset, std::span<std::byte> bytes) noexcept {
    return seek(offset) && std::fread(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  /// Also ends an earlier error or end of file, and separates a read from a write.
  bool seek(std::int64_t offset) noexcept {
    std::clearerr(file_.get());
    return std::fseek(file_.get(), static_cast<long>(offset), SEEK_SET) == 0;
  }

  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t capacity_bytes_;
};
static_assert(TierStore<FileTierStore>);

KVPAGE_END_NAMESPACE
