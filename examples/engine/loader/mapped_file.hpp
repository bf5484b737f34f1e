/// \file MappedFile: a file whose bytes have addresses, and how to read them into other memory.
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
///
/// An access through the map makes more resident than was asked for, how much depends on the kernel and on how the file came into the
/// page cache (from 64 KiB around the access to the whole folio: 2 MiB and more). So the map is for what is needed as long as it exists;
/// whatever is needed once, or in parts, is read: then memory does not depend on either.
/// A file that shrinks while it is mapped raises SIGBUS on access: see TruncationGuard. `read` returns an error.
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

  /// Copies `part` into `out`, not through the map. Requires: `part` lies inside bytes(); equal sizes.
  /// Errors: the file shrank, or the system cannot read it. Threads: any number at a time.
  Expected<void, LoadError> read(std::span<const std::byte> part, std::span<std::byte> out) const;

  /// Gives the pages from `offset` on, rounded up to a whole page, a map of their own at the same addresses: no access below makes any
  /// of them resident, and those that are so now are given back. Their values stay. Requires: offset <= bytes().size().
  void separate(std::size_t offset) const noexcept;

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
