/// \file Counts what every form of operator new hands out in this program, and lets one of them fail.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvpage_test {

/// Sum of all bytes requested from operator new since the program began: plain, array, aligned and nothrow.
std::size_t allocated_bytes() noexcept;
/// Allocations that operator delete has not got back.
std::int64_t live_allocations() noexcept;

/// While it lives, the `k`-th allocation from now on (1 = the next one) fails, on whatever thread it comes, and so do `count - 1` after it.
class FailedAllocation {
 public:
  explicit FailedAllocation(std::int64_t k, std::int64_t count = 1) noexcept;
  ~FailedAllocation();
  FailedAllocation(const FailedAllocation&) = delete;
  FailedAllocation& operator=(const FailedAllocation&) = delete;

  /// False when there were fewer than k so far.
  [[nodiscard]] bool happened() const noexcept;
};

/// While it lives, allocations of this thread are the test's own: they neither fail nor count towards k.
class OwnAllocations {
 public:
  OwnAllocations() noexcept;
  ~OwnAllocations();
  OwnAllocations(const OwnAllocations&) = delete;
  OwnAllocations& operator=(const OwnAllocations&) = delete;
};

}  // namespace kvpage_test
