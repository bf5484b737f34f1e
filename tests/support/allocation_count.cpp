/// \file The counting operator new of tests that count: all of its forms, since those of the runtime need not call each other.
#include "support/allocation_count.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> total_bytes{0};
std::atomic<std::int64_t> num_live{0};
std::atomic<std::int64_t> num_allocations{0};
std::atomic<std::int64_t> first_failed{0};  // of num_allocations; [first_failed, end_failed) fail
std::atomic<std::int64_t> end_failed{0};
thread_local int num_own = 0;  // OwnAllocations that live

/// Null when there is no memory.
void* allocate(std::size_t size, std::size_t alignment) noexcept {
  total_bytes += size;
  const std::int64_t number = num_own > 0 ? 0 : ++num_allocations;
  if (number > 0 && number >= first_failed.load() && number < end_failed.load()) return nullptr;
  const std::size_t bytes = std::max<std::size_t>(size, 1);
  void* const memory = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                           ? std::malloc(bytes)
                           : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory != nullptr) ++num_live;
  return memory;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment = 1) {
  if (void* memory = allocate(size, alignment)) return memory;
  throw std::bad_alloc{};
}

void give_back(void* memory) noexcept {
  if (memory != nullptr) --num_live;
  std::free(memory);
}

std::size_t bytes(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

namespace kvpage_test {

std::size_t allocated_bytes() noexcept { return total_bytes.load(); }
std::int64_t live_allocations() noexcept { return num_live.load(); }
FailedAllocation::FailedAllocation(std::int64_t k, std::int64_t count) noexcept {
  first_failed = num_allocations + k;
  end_failed = first_failed + count;
}
FailedAllocation::~FailedAllocation() { end_failed = 0; }
OwnAllocations::OwnAllocations() noexcept { ++num_own; }
OwnAllocations::~OwnAllocations() { --num_own; }
bool FailedAllocation::happened() const noexcept { return num_allocations.load() >= first_failed.load(); }

}  // namespace kvpage_test

using std::align_val_t, std::nothrow_t, std::size_t;

void* operator new(size_t size) { return allocate_or_throw(size); }
void* operator new[](size_t size) { return allocate_or_throw(size); }
void* operator new(size_t size, align_val_t alignment) { return allocate_or_throw(size, bytes(alignment)); }
void* operator new[](size_t size, align_val_t alignment) { return allocate_or_throw(size, bytes(alignment)); }
void* operator new(size_t size, const nothrow_t&) noexcept { return allocate(size, 1); }
void* operator new[](size_t size, const nothrow_t&) noexcept { return allocate(size, 1); }
void* operator new(size_t size, align_val_t alignment, const nothrow_t&) noexcept { return allocate(size, bytes(alignment)); }
void* operator new[](size_t size, align_val_t alignment, const nothrow_t&) noexcept { return allocate(size, bytes(alignment)); }

void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t) noexcept { give_back(memory); }
void operator delete(void* memory, align_val_t) noexcept { give_back(memory); }
void operator delete[](void* memory, align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, size_t, align_val_t) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t, align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, const nothrow_t&) noexcept { give_back(memory); }
void operator delete[](void* memory, const nothrow_t&) noexcept { give_back(memory); }
void operator delete(void* memory, align_val_t, const nothrow_t&) noexcept { give_back(memory); }
void operator delete[](void* memory, align_val_t, const nothrow_t&) noexcept { give_back(memory); }
