/// \file MappedMemory: zeroed pages from the system, touched only when used.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

namespace kvpage::engine {

/// Owns `bytes` of page-aligned memory, huge pages where the system grants them. Errors: std::bad_alloc.
class MappedMemory {
 public:
  MappedMemory() = default;
  explicit MappedMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    if (bytes_ == 0) return;
    void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(data);
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  MappedMemory(MappedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  std::span<std::byte> span() const noexcept { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace kvpage::engine
