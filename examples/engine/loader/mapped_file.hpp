/// \file MappedFile: a file mapped read-only into memory.
#pragma once

#include "engine/loader/file_stamp.hpp"
#include "engine/loader/load_error.hpp"

#include <kvpage/base/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace kvpage::engine {

/// A whole regular file, mapped read-only. Move-only; spans into it stay valid when it is moved, not when it ends.
/// A file that shrinks while it is mapped raises SIGBUS on access: see TruncationGuard.
class MappedFile {
 public:
  /// Errors: missing, unreadable, not a regular file, empty, or the map is refused.
  static Expected<MappedFile, LoadError> open(const std::filesystem::path& path);

  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  /// The whole file.
  std::span<const std::byte> bytes() const noexcept;
  /// Size of the file when it was opened.
  std::int64_t file_bytes() const noexcept;
  const std::string& path() const noexcept;
  /// When the file was opened.
  const FileStamp& stamp() const noexcept;
  /// Whether every write since then changes the stamp of the file: see FileStamp::settled.
  bool stamp_is_telling() const noexcept;

  /// Gives the memory of `part` (and of up to kMapAroundBytes beside it) back to the system. Its values stay: an access reads the
  /// file again. Requires: `part` lies inside bytes(). Cost: cheap, but what is needed again must be faulted in again.
  void release(std::span<const std::byte> part) const noexcept;

  /// Linux maps up to this much around an access, whoever asked for it.
  static constexpr std::size_t kMapAroundBytes = 65536;

  struct Region;  ///< what the SIGBUS handler needs to know; private to the loader

 private:
  explicit MappedFile(std::unique_ptr<Region> region) noexcept;

  std::unique_ptr<Region> region_;
};

/// While one exists, reading a mapped file beyond its new, shorter end prints which file shrank and exits with code 3.
///
/// Without it the kernel kills the process without a word. Other SIGBUS causes keep their previous effect.
/// Requires: at most one exists at a time, and nobody else changes the SIGBUS handler meanwhile. It acts on all threads.
class TruncationGuard {
 public:
  TruncationGuard();
  TruncationGuard(const TruncationGuard&) = delete;
  TruncationGuard& operator=(const TruncationGuard&) = delete;
  ~TruncationGuard();
};

}  // namespace kvpage::engine
