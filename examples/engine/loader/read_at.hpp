/// \file read_at: bytes of an open file, copied into memory of the caller's.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>

namespace kvpage::engine {

/// The file ends before the bytes that were asked for.
inline constexpr int kFileEnds = -1;

/// Fills `out` with the bytes of the file from `offset` on. 0 on success; else the errno of the read, or kFileEnds.
/// Threads: any number may read one descriptor.
inline int read_at(int fd, std::size_t offset, std::span<std::byte> out) noexcept {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : kFileEnds;
    offset += static_cast<std::size_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace kvpage::engine
