/// \file MappedMemory: zeroed pages from the system, touched only when used.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

namespace kvpage::engine {

/// Owns `bytes` of page-aligned memory. From kHugePageBytes on it starts at a multiple of them and lies on huge pages where the system
/// grants them. Errors: std::bad_alloc.
class MappedMemory {
 public:
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

  MappedMemory() = default;
  explicit MappedMemory(std::int64_t bytes) {
    if (bytes == 0) return;
    const auto num_bytes = static_cast<std::size_t>(bytes);
    // The system aligns to small pages only: addresses for one huge page more leave room to move the start. They cost no memory.
    const std::size_t reserved = num_bytes < kHugePageBytes ? num_bytes : num_bytes + kHugePageBytes;
    void* start = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    reserved_ = {static_cast<std::byte*>(start), reserved};
    const std::size_t past = reinterpret_cast<std::uintptr_t>(start) % kHugePageBytes;
    memory_ = reserved_.subspan(reserved == num_bytes || past == 0 ? 0 : kHugePageBytes - past, num_bytes);
    if (reserved != num_bytes) madvise(memory_.data(), memory_.size(), MADV_HUGEPAGE);
  }
  MappedMemory(MappedMemory&& other) noexcept : reserved_(std::exchange(other.reserved_, {})), memory_(std::exchange(other.memory_, {})) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(reserved_, other.reserved_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~MappedMemory() {
    if (!reserved_.empty()) munmap(reserved_.data(), reserved_.size());
  }

  std::span<std::byte> span() const noexcept { return memory_; }

 private:
  std::span<std::byte> reserved_;
  std::span<std::byte> memory_;  // part of it
};

}  // namespace kvpage::engine
