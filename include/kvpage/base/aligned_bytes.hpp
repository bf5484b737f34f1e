/// \file AlignedBytes: owned memory that starts where pools, panels and scratch must start.
#pragma once

#include <kvpage/base/assert.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// `size` bytes from a multiple of kAlignment on. Bytes nobody wrote hold anything, and untouched pages take no memory.
/// Errors: std::bad_alloc.
class AlignedBytes {
 public:
  /// The most that a pool, a packed matrix, scratch or an arena asks for.
  static constexpr std::size_t kAlignment = 64;

  AlignedBytes() = default;
  explicit AlignedBytes(std::int64_t size)
      : bytes_(static_cast<std::byte*>(::operator new(checked(size), std::align_val_t{kAlignment}))), size_(checked(size)) {}
  AlignedBytes(std::int64_t size, std::byte fill) : AlignedBytes(size) { std::fill_n(bytes_.get(), size_, fill); }

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(size_); }
  [[nodiscard]] std::span<std::byte> span() const noexcept { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const noexcept { ::operator delete(p, std::align_val_t{kAlignment}); }
  };
  static std::size_t checked(std::int64_t size) noexcept {
    KVPAGE_ASSERT(size >= 0, "a size is not negative");
    return static_cast<std::size_t>(size);
  }

  std::unique_ptr<std::byte[], Free> bytes_;
  std::size_t size_ = 0;
};

KVPAGE_END_NAMESPACE
